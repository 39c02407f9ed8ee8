#include "http/message_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace fairlead::dataplane {
namespace {

using Kind = read::Error::Kind;
using namespace std::string_literals;

std::string fields_text(const Fields& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    out.append(" ").append(fields[i].name).append("=").append(fields[i].value);
  }
  return out;
}

// Everything that a reader says, as text. The parts of a body are joined, since how a body is split
// is not promised.
struct Log {
  std::string text;
  bool in_body = false;

  void close_body() {
    if (in_body) text += "]";
    in_body = false;
  }
  void add(const RequestHead& head) {
    text += "<" + head.method + " " + head.target + " 1." + std::to_string(head.minor) + " host " +
            head.host + (head.keep_alive ? "" : " close") + (head.upgrade ? " upgrade" : "") + ">";
  }
  void add(const ResponseHead& head) {
    text += "<" + std::to_string(head.status) + " " + head.reason +
            (head.keep_alive ? "" : " close") + ">";
  }
  template <typename Event>
  void operator()(const Event& event) {
    std::visit(Overloaded{
                   [&](const read::Body& body) {
                     if (!in_body) text += "[";
                     in_body = true;
                     text += link::as_text(body.bytes);
                   },
                   [&](const read::Trailers& trailers) {
                     close_body();
                     text += "{" + fields_text(trailers.fields) + " }";
                   },
                   [&](const read::End&) {
                     close_body();
                     text += ".";
                   },
                   [&](const read::Error& error) {
                     close_body();
                     text += "!";
                     text += error.text;
                   },
                   [&](const auto& head) { add(head); },
               },
               event);
  }
};

// Feeds `bytes` in pieces of the given sizes (the last one takes the rest); messages follow each
// other until nothing more is taken.
std::string read_requests(std::string_view bytes, const std::vector<std::size_t>& pieces = {}) {
  RequestReader reader;
  Log log;
  const auto feed = [&](std::string_view piece) {
    link::Bytes input = link::as_bytes(piece);
    while (auto event = reader.next(input)) {
      log(*event);
      if (std::holds_alternative<read::Error>(*event)) return false;
      if (std::holds_alternative<read::End>(*event)) reader.restart();
    }
    EXPECT_TRUE(input.empty());
    return true;
  };
  for (const std::size_t size : pieces) {
    const std::string_view piece = bytes.substr(0, size);
    bytes.remove_prefix(piece.size());
    if (!feed(piece)) return log.text;
  }
  if (feed(bytes)) {
    if (const auto event = reader.finish(true)) log(*event);
  }
  return log.text;
}

std::string read_response(std::string_view bytes, const std::vector<std::size_t>& pieces = {},
                          std::string_view method = "GET", bool clean = true) {
  ResponseReader reader(method);
  Log log;
  const auto feed = [&](std::string_view piece) {
    link::Bytes input = link::as_bytes(piece);
    while (auto event = reader.next(input)) log(*event);
    if (!input.empty()) log.text.append("+").append(link::as_text(input));
  };
  for (const std::size_t size : pieces) {
    const std::string_view piece = bytes.substr(0, size);
    bytes.remove_prefix(piece.size());
    feed(piece);
  }
  feed(bytes);
  if (const auto event = reader.finish(clean)) log(*event);
  return log.text;
}

const std::string kHost = "Host: web.test\r\n";

struct Case {
  std::string bytes, log;
};

const std::vector<Case>& good_requests() {
  static const std::vector<Case> kCases{
      {"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", "<GET / 1.1 host web.test>."},
      {"\r\nGET / HTTP/1.1\r\n" + kHost + "\r\n", "<GET / 1.1 host web.test>."},
      {"GET /a?b=c HTTP/1.1\r\nHOST:WEB.Test.:80\t\r\nX:\r\n\r\n",
       "<GET /a?b=c 1.1 host web.test>."},
      {"GET / HTTP/1.0\r\n" + kHost + "\r\n", "<GET / 1.0 host web.test close>."},
      {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n" + kHost + "\r\n",
       "<GET / 1.0 host web.test>."},
      {"GET / HTTP/1.1\r\nConnection: x, CLOSE\r\n" + kHost + "\r\n",
       "<GET / 1.1 host web.test close>."},
      {"GET http://Web.test/p?q HTTP/1.1\r\n" + kHost + "\r\n", "<GET /p?q 1.1 host web.test>."},
      {"GET HTTP://web.test HTTP/1.1\r\n" + kHost + "\r\n", "<GET / 1.1 host web.test>."},
      {"GET http://web.test?q HTTP/1.1\r\n" + kHost + "\r\n", "<GET /?q 1.1 host web.test>."},
      {"GET http://web.test/ HTTP/1.0\r\n\r\n", "<GET / 1.0 host web.test close>."},
      {"OPTIONS * HTTP/1.1\r\n" + kHost + "\r\n", "<OPTIONS * 1.1 host web.test>."},
      {"OPTIONS http://web.test HTTP/1.1\r\n" + kHost + "\r\n", "<OPTIONS * 1.1 host web.test>."},
      {"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "<GET / 1.1 host [::1]>."},
      {"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
       "<CONNECT a.test:443 1.1 host a.test>."},
      {"GET / HTTP/1.1\r\n" + kHost + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
       "<GET / 1.1 host web.test upgrade>."},
      {"GET / HTTP/1.1\r\n" + kHost + "Upgrade: websocket\r\n\r\n", "<GET / 1.1 host web.test>."},
      {"POST / HTTP/1.1\r\n" + kHost + "Content-Length: 5\r\n\r\nhello",
       "<POST / 1.1 host web.test>[hello]."},
      {"POST / HTTP/1.1\r\n" + kHost + "Content-Length: 0\r\n\r\n", "<POST / 1.1 host web.test>."},
      {"GET / HTTP/1.1\r\n" + kHost + "Content-Length: 005\r\n\r\nhello",
       "<GET / 1.1 host web.test>[hello]."},
      {"POST / HTTP/1.1\r\n" + kHost +
           "Transfer-Encoding: Chunked\r\n\r\n"
           "3\r\nabc\r\n0A;x=y;z=\"q;\\\"\"\r\n0123456789\r\n000\r\n\r\n",
       "<POST / 1.1 host web.test>[abc0123456789]."},
      {"POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "<POST / 1.1 host web.test>."},
      {"POST / HTTP/1.1\r\n" + kHost +
           "Transfer-Encoding: chunked\r\n\r\n"
           "1\r\na\r\n0;last\r\nX-Sum: 1\r\nY:  2 \r\n\r\n",
       "<POST / 1.1 host web.test>[a]{ X-Sum=1 Y=2 }."},
      // A method must not change the framing: what follows would become the next request.
      {"DELETE / HTTP/1.1\r\n" + kHost +
           "Transfer-Encoding: chunked\r\n\r\n"
           "2\r\nhi\r\n0\r\n\r\nGET /2 HTTP/1.1\r\n" +
           kHost + "\r\n",
       "<DELETE / 1.1 host web.test>[hi].<GET /2 1.1 host web.test>."},
      {"OPTIONS / HTTP/1.1\r\n" + kHost + "Content-Length: 2\r\n\r\nhiGET /2 HTTP/1.1\r\n" + kHost +
           "\r\n",
       "<OPTIONS / 1.1 host web.test>[hi].<GET /2 1.1 host web.test>."},
      {"HEAD / HTTP/1.1\r\n" + kHost + "Content-Length: 2\r\n\r\nhiBREW /pot HTTP/1.1\r\n" + kHost +
           "\r\n",
       "<HEAD / 1.1 host web.test>[hi].<BREW /pot 1.1 host web.test>."},
  };
  return kCases;
}

TEST(RequestReader, ReadsWellFormedRequests) {
  for (const Case& c : good_requests()) EXPECT_EQ(read_requests(c.bytes), c.log) << c.bytes;
}

TEST(RequestReader, SplitAtEveryByteAndIntoSingleBytes) {
  for (const Case& c : good_requests()) {
    for (std::size_t n = 1; n < c.bytes.size(); ++n) {
      ASSERT_EQ(read_requests(c.bytes, {n}), c.log) << c.bytes << " split at " << n;
    }
    EXPECT_EQ(read_requests(c.bytes, std::vector<std::size_t>(c.bytes.size(), 1)), c.log)
        << c.bytes;
  }
}

// Each is refused with the same words however it is split.
struct Refusal {
  std::string bytes;
  Kind kind;
  std::string_view text;
};

constexpr Kind kBad = Kind::kMalformed;

// A POST with these fields and a body in chunks.
std::string with(const std::string& fields) {
  return "POST / HTTP/1.1\r\n" + kHost + fields + "\r\n5\r\nhello\r\n0\r\n\r\n";
}

std::string chunks(const std::string& body) {
  return "POST / HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n" + body;
}

std::vector<Refusal> framing_refusals() {
  return {
      // Which length holds? (pingora#945 and the like)
      {with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), kBad, "not the only framing"},
      {with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), kBad,
       "malformed Content-Length"},
      {with("Transfer-Encoding: identity\r\nContent-Length: 5\r\n"), kBad, "both Content-Length"},
      {with("Content-Length: 5\r\nContent-Length: 5\r\n"), kBad, "more than one Content-Length"},
      {with("Content-Length: 5\r\nContent-Length: 6\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length: 5, 5\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length: +5\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length: -5\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length: 5 5\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length: 0x5\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length:\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length: 18446744073709551616\r\n"), kBad, "malformed Content-Length"},
      {with("Content-Length: 5\r\n5\r\n"), kBad, "malformed header name"},
      // Transfer-Encoding lists that readers understand in different ways.
      {with("Transfer-Encoding: gzip, chunked\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: chunked, identity\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: chunked, chunked\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: identity\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: xchunked\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: chunked;q=1\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: \"chunked\"\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: , chunked\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: chunked,\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding:\r\n"), kBad, "other than chunked"},
      {with("Transfer-Encoding: \vchunked\r\n"), kBad, "control byte"},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), kBad,
       "not the only framing"},
      {with("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"), kBad,
       "more than one Transfer-Encoding"},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), kBad,
       "not the only framing"},
      {with("Transfer-Encoding : chunked\r\n"), kBad, "malformed header name"},
      {with("Transfer-Encoding\t: chunked\r\n"), kBad, "malformed header name"},
      {with("X: 1\r\n Transfer-Encoding: chunked\r\n"), kBad, "folded"},
      {with("Transfer-Encoding:\r\n chunked\r\n"), kBad, "folded"},
      {"POST / HTTP/1.0\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n", kBad, "in HTTP/1.0"},
  };
}

std::vector<Refusal> line_refusals() {
  return {
      // Lines.
      {"GET / HTTP/1.1\n" + kHost + "\r\n", kBad, "bare CR or LF"},
      {"GET / HTTP/1.1\r\nHost: web.test\n\r\n", kBad, "bare CR or LF"},
      {"GET / HTTP/1.1\r\nHost: web.test\r\n\n", kBad, "bare CR or LF"},
      {"GET / HTTP/1.1\r\n" + kHost + "X: a\rb\r\n\r\n", kBad, "bare CR or LF"},
      {"GET / HTTP/1.1\r\n" + kHost + "X: a\r\r\n\r\n", kBad, "bare CR or LF"},
      {"GET / HTTP/1.1\r\n" + kHost + "X: a\0b\r\n\r\n"s, kBad, "control byte"},
      {"GET / HTTP/1.1\r\n" + kHost + "X: a\x7f\r\n\r\n", kBad, "control byte"},
      {"GET / HTTP/1.1\r\n" + kHost + "X\x01: a\r\n\r\n", kBad, "control byte"},
      {"GET / HTTP/1.1\r\n" + kHost + "X\xc3\xa9: a\r\n\r\n", kBad, "malformed header name"},
      {"GET / HTTP/1.1\r\n" + kHost + ": a\r\n\r\n", kBad, "malformed header name"},
      {"GET / HTTP/1.1\r\n" + kHost + "X\r\n\r\n", kBad, "malformed header name"},
      {"GET / HTTP/1.1\r\n" + kHost + "X y: a\r\n\r\n", kBad, "malformed header name"},
      {"GET / HTTP/1.1\r\n" + kHost + "X(: a\r\n\r\n", kBad, "malformed header name"},
      {"GET / HTTP/1.1\r\n " + kHost + "\r\n", kBad, "folded"},
      {"GET / HTTP/1.1\r\n" + kHost + "Connection: @\r\n\r\n", kBad, "malformed header value"},
      {"\r\n\r\nGET / HTTP/1.1\r\n" + kHost + "\r\n", kBad, "empty start line"},
      // Request lines.
      {"GET  / HTTP/1.1\r\n" + kHost + "\r\n", kBad, "malformed target"},
      {" GET / HTTP/1.1\r\n" + kHost + "\r\n", kBad, "folded"},
      {"GET / HTTP/1.1 \r\n" + kHost + "\r\n", kBad, "version"},
      {"GET / /x HTTP/1.1\r\n" + kHost + "\r\n", kBad, "version"},
      {"GET /\r\n" + kHost + "\r\n", kBad, ""},
      {"GET / HTTP/2.0\r\n" + kHost + "\r\n", kBad, "version"},
      {"GET / HTTP/1.2\r\n" + kHost + "\r\n", kBad, "version"},
      {"GET / HTTP/0.9\r\n" + kHost + "\r\n", kBad, "version"},
      {"GET / http/1.1\r\n" + kHost + "\r\n", kBad, "version"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", kBad, "version"},
      {"G@T / HTTP/1.1\r\n" + kHost + "\r\n", kBad, "malformed method"},
      {"GET path HTTP/1.1\r\n" + kHost + "\r\n", kBad, "malformed target"},
      {"GET * HTTP/1.1\r\n" + kHost + "\r\n", kBad, "malformed target"},
      {"GET ftp://web.test/ HTTP/1.1\r\n" + kHost + "\r\n", kBad, "malformed target"},
      {"GET http:/// HTTP/1.1\r\n" + kHost + "\r\n", kBad, "authority is not Host"},
      // Not HTTP at all: told at the first byte that shows it.
      {"\x16\x03\x01\x02\x00\x01"s, kBad, "control byte"},
      {"\x00\x00\x00\x01"s, kBad, "control byte"},
  };
}

std::vector<Refusal> host_refusals() {
  return {
      // Host.
      {"GET / HTTP/1.1\r\n\r\n", kBad, "no Host"},
      {"GET / HTTP/1.0\r\n\r\n", kBad, "no Host"},
      {"GET http://web.test/ HTTP/1.1\r\n\r\n", kBad, "no Host"},
      {"GET / HTTP/1.1\r\n" + kHost + kHost + "\r\n", kBad, "more than one Host"},
      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", kBad, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", kBad, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", kBad, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", kBad, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: a/../b\r\n\r\n", kBad, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: a..b\r\n\r\n", kBad, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", kBad, "malformed Host"},
      {"GET / HTTP/1.1\r\nHost: \xc3\xa9.test\r\n\r\n", kBad, "malformed Host"},
      {"GET http://other.test/ HTTP/1.1\r\n" + kHost + "\r\n", kBad, "authority is not Host"},
      {"GET http://web.test:81/ HTTP/1.1\r\n" + kHost + "\r\n", kBad, "authority is not Host"},
      {"GET http://u@web.test/ HTTP/1.1\r\n" + kHost + "\r\n", kBad, "authority is not Host"},
  };
}

std::vector<Refusal> chunk_refusals() {
  return {
      // Chunks.
      {chunks("5\nhello\r\n0\r\n\r\n"), kBad, "bare CR or LF"},
      {chunks("5\r\nhello\n0\r\n\r\n"), kBad, "bare CR or LF"},
      {chunks("5\r\nhelloX\r\n0\r\n\r\n"), kBad, "malformed chunk"},
      {chunks("5\r\nhello0\r\n\r\n"), kBad, "malformed chunk"},
      {chunks("g\r\n"), kBad, "malformed chunk"},
      {chunks("\r\n\r\n"), kBad, "malformed chunk"},
      {chunks("0x5\r\nhello\r\n0\r\n\r\n"), kBad, "malformed chunk"},
      {chunks("-5\r\nhello\r\n"), kBad, "malformed chunk"},
      {chunks("+5\r\nhello\r\n"), kBad, "malformed chunk"},
      {chunks(" 5\r\nhello\r\n"), kBad, "folded"},
      {chunks("5 \r\nhello\r\n"), kBad, "malformed chunk"},
      {chunks("5,5\r\nhello\r\n"), kBad, "malformed chunk"},
      {chunks("10000000000000000\r\n"), kBad, "malformed chunk"},
      {chunks("5;\r\nhello\r\n"), kBad, "malformed chunk"},
      {chunks("5;a=\r\nhello\r\n"), kBad, "malformed chunk"},
      {chunks("5;a=\"\x01\"\r\nhello\r\n"), kBad, "control byte"},
      {chunks("5;a\nhello\r\n"), kBad, "bare CR or LF"},
      {chunks("0\r\nX : 1\r\n\r\n"), kBad, "malformed header name"},
      {chunks("0\r\nX: 1\r\n y\r\n\r\n"), kBad, "folded"},
      {chunks("0\r\nContent-Length: 1\r\n\r\n"), kBad, "malformed Content-Length"},
      {chunks("0\r\nTransfer-Encoding: chunked\r\n\r\n"), kBad, "not the only framing"},
      {chunks("0\r\nnonsense\r\n\r\n"), kBad, "malformed header name"},
  };
}

void expect_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& c : refusals) {
    const std::string log = read_requests(c.bytes);
    const std::size_t at = log.find('!');
    ASSERT_NE(at, std::string::npos) << c.bytes << "\nwas read as " << log;
    EXPECT_NE(log.find(c.text, at), std::string::npos) << c.bytes << "\nwas refused as " << log;
    EXPECT_EQ(log.find("ended"), std::string::npos) << c.bytes << "\nwas only incomplete: " << log;
    for (std::size_t n = 1; n < c.bytes.size(); ++n) {
      const std::string split = read_requests(c.bytes, {n});
      ASSERT_EQ(split.substr(split.find('!')), log.substr(at)) << c.bytes << " split at " << n;
    }
  }
}

TEST(RequestReader, RefusesAmbiguousFraming) {
  expect_refused(framing_refusals());
}
TEST(RequestReader, RefusesMalformedLines) {
  expect_refused(line_refusals());
}
TEST(RequestReader, RefusesMalformedHosts) {
  expect_refused(host_refusals());
}
TEST(RequestReader, RefusesMalformedChunks) {
  expect_refused(chunk_refusals());
}

Kind error_kind(std::string_view bytes) {
  RequestReader reader;
  link::Bytes input = link::as_bytes(bytes);
  while (auto event = reader.next(input)) {
    if (const auto* error = std::get_if<read::Error>(&*event)) return error->kind;
    if (std::holds_alternative<read::End>(*event)) break;
  }
  return Kind::kIncomplete;
}

TEST(RequestReader, LimitsAreExact) {
  const auto line = [](std::size_t size) {
    return "GET /" + std::string(size - 16, 'a') + " HTTP/1.1\r\n" + kHost + "\r\n";
  };
  EXPECT_EQ(read_requests(line(kMaxStartLine)).back(), '.');
  EXPECT_EQ(error_kind(line(kMaxStartLine + 1)), Kind::kTooLarge);
  EXPECT_EQ(error_kind(std::string(kMaxStartLine + 1, 'A')), Kind::kTooLarge)
      << "a line with no end";

  const std::string start = "GET / HTTP/1.1\r\n" + kHost;
  const auto head = [&](std::size_t size) {
    return start + "X: " + std::string(size - start.size() - 7, 'a') + "\r\n\r\n";
  };
  ASSERT_EQ(head(kMaxHead).size(), kMaxHead);
  EXPECT_EQ(read_requests(head(kMaxHead)).back(), '.');
  EXPECT_EQ(error_kind(head(kMaxHead + 1)), Kind::kTooLarge);
  EXPECT_EQ(error_kind(start + std::string(kMaxHead, 'A')), Kind::kTooLarge);

  const auto count = [&](std::size_t fields) {
    std::string text = start;
    for (std::size_t i = 1; i < fields; ++i) text += "X: 1\r\n";
    return text + "\r\n";
  };
  EXPECT_EQ(read_requests(count(kMaxFields)).back(), '.');
  EXPECT_EQ(error_kind(count(kMaxFields + 1)), Kind::kTooLarge);

  const std::string chunked = start + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(error_kind(chunked + std::string(kMaxChunkLine + 1, '0')), Kind::kMalformed);
  EXPECT_EQ(error_kind(chunked + "0\r\nX: " + std::string(kMaxTrailers, 'a')), Kind::kTooLarge);
  std::string trailers = chunked + "0\r\n";
  for (std::size_t i = 0; i <= kMaxFields; ++i) trailers += "X: 1\r\n";
  EXPECT_EQ(error_kind(trailers + "\r\n"), Kind::kTooLarge);
}

TEST(RequestReader, AMalformedStartLineIsNotWaitedFor) {
  for (const std::string bytes : {"nonsense\r\n", "GET /\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                  "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1 x\r\n"}) {
    EXPECT_EQ(error_kind(bytes), Kind::kMalformed) << bytes;
  }
}

TEST(RequestReader, FiveLargeCookiesPass) {
  std::string bytes = "GET / HTTP/1.1\r\n" + kHost;
  for (int i = 0; i < 5; ++i) bytes += "Cookie: c=" + std::string(680, 'x') + "\r\n";
  EXPECT_EQ(read_requests(bytes + "\r\n"), "<GET / 1.1 host web.test>.");
}

TEST(RequestReader, PipelinedBytesStayWithTheCaller) {
  RequestReader reader;
  const std::string bytes = "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 1\r\n\r\naGET /2";
  link::Bytes input = link::as_bytes(bytes);
  ASSERT_TRUE(std::holds_alternative<RequestHead>(*reader.next(input)));
  ASSERT_TRUE(std::holds_alternative<read::Body>(*reader.next(input)));
  ASSERT_TRUE(std::holds_alternative<read::End>(*reader.next(input)));
  EXPECT_EQ(link::as_text(input), "GET /2");
  EXPECT_FALSE(reader.next(input));
  EXPECT_EQ(link::as_text(input), "GET /2") << "nothing is taken before restart()";
  EXPECT_FALSE(reader.in_message());
}

TEST(RequestReader, EndOfTheStreamBetweenMessagesIsNoError) {
  RequestReader reader;
  EXPECT_FALSE(reader.finish(true));
  link::Bytes input = link::as_bytes("G");
  EXPECT_FALSE(reader.next(input));
  EXPECT_TRUE(reader.in_message());
  EXPECT_EQ(std::get<read::Error>(*reader.finish(true)).kind, Kind::kIncomplete);
}

TEST(RequestReader, BodyIsAViewOfWhatWasFed) {
  RequestReader reader;
  const std::string head = "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 3000000000\r\n\r\n";
  link::Bytes input = link::as_bytes(head);
  ASSERT_TRUE(reader.next(input));
  const std::string part(100'000, 'x');
  link::Bytes body = link::as_bytes(part);
  const auto event = reader.next(body);
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<read::Body>(*event).bytes.data(), link::as_bytes(part).data());
  EXPECT_EQ(std::get<read::Body>(*event).bytes.size(), part.size());
}

const std::vector<Case>& good_responses() {
  static const std::vector<Case> kCases{
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "<200 OK>[hi]."},
      {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "<200 >."},
      {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "<200 OK close>[hi]."},
      {"HTTP/1.1 200 OK\r\n\r\nuntil the close", "<200 OK close>[until the close]."},
      {"HTTP/1.1 200 OK\r\n\r\n", "<200 OK close>."},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n",
       "<200 OK>[hi]{ X=y }."},
      {"HTTP/1.1 204 No Content\r\n\r\n", "<204 No Content>."},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "<304 Not Modified>."},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
       "<100 Continue><103 Early Hints><200 OK>[hi]."},
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200", "<200 OK>[hi].+HTTP/1.1 200"},
  };
  return kCases;
}

TEST(ResponseReader, ReadsWellFormedResponses) {
  for (const Case& c : good_responses()) EXPECT_EQ(read_response(c.bytes), c.log) << c.bytes;
}

TEST(ResponseReader, SplitAtEveryByte) {
  for (const Case& c : good_responses()) {
    if (c.log.find('+') != std::string::npos) continue;
    for (std::size_t n = 1; n < c.bytes.size(); ++n) {
      ASSERT_EQ(read_response(c.bytes, {n}), c.log) << c.bytes << " split at " << n;
    }
    EXPECT_EQ(read_response(c.bytes, std::vector<std::size_t>(c.bytes.size(), 1)), c.log)
        << c.bytes;
  }
}

TEST(ResponseReader, AnswersToHeadHaveNoBody) {
  EXPECT_EQ(read_response("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", {}, "HEAD"), "<200 OK>.");
  EXPECT_EQ(read_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", {}, "HEAD"),
            "<200 OK>.");
  EXPECT_EQ(read_response("HTTP/1.1 200 OK\r\n\r\n", {}, "HEAD"), "<200 OK>.");
  EXPECT_EQ(read_response("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", {}, "HEAD"),
            "<103 Hints><200 OK>.");
}

TEST(ResponseReader, AnIncompleteMessageIsNeverAnEnd) {
  for (const std::string bytes :
       {"", "H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n"}) {
    for (const bool clean : {true, false}) {
      const std::string log = read_response(bytes, {}, "GET", clean);
      EXPECT_EQ(log.find('.'), std::string::npos) << bytes << " was read as " << log;
      EXPECT_NE(log.find(clean ? "!ended" : "!broke"), std::string::npos) << log;
    }
  }
  EXPECT_EQ(read_response("HTTP/1.1 200 OK\r\n\r\npart", {}, "GET", false),
            "<200 OK close>[part]!broke before the message ended");
}

TEST(ResponseReader, RefusesWhatIsAmbiguous) {
  struct Bad {
    std::string bytes;
    std::string_view text;
  };
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  std::string many;
  for (int i = 0; i <= kMaxInformational; ++i) many += "HTTP/1.1 100 Continue\r\n\r\n";
  for (const Bad& c : {
           Bad{ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
               "not the only framing"},
           Bad{ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "more than one"},
           Bad{ok + "Content-Length: 5,5\r\n\r\n", "malformed Content-Length"},
           Bad{ok + "Transfer-Encoding: gzip\r\n\r\n", "other than chunked"},
           Bad{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "in HTTP/1.0"},
           Bad{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "unasked"},
           Bad{"HTTP/1.1 099 X\r\n\r\n", "malformed status"},
           Bad{"HTTP/1.1 20 OK\r\n\r\n", "malformed status"},
           Bad{"HTTP/1.1 2000 OK\r\n\r\n", "malformed status"},
           Bad{"HTTP/2 200 OK\r\n\r\n", "version"},
           Bad{"\r\n" + ok + "\r\n", "empty start line"},
           Bad{"SSH-2.0-OpenSSH_9.2\r\n\r\n", "version"},
           Bad{ok + "X : y\r\n\r\n", "header name"},
           Bad{ok + "X: a\r\n b\r\n\r\n", "folded"},
           Bad{ok + "X: a\n\r\n", "bare CR or LF"},
           Bad{"HTTP/1.1 200 O\0K\r\n\r\n"s, "control byte"},
           Bad{many, "too many informational"},
       }) {
    const std::string log = read_response(c.bytes);
    const std::size_t at = log.find('!');
    ASSERT_NE(at, std::string::npos) << c.bytes << "\nwas read as " << log;
    EXPECT_NE(log.find(c.text, at), std::string::npos) << c.bytes << "\nwas refused as " << log;
  }
}

}  // namespace
}  // namespace fairlead::dataplane
