#include "http/message_reader.h"

#include <algorithm>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cassert>
#include <cstring>
#include <limits>

#include "routes/host.h"

namespace fairlead::dataplane {
namespace {

namespace beast = boost::beast;

using Kind = read::Error::Kind;
using ErrorCode = beast::error_code;

// An error found by a check of ours while Beast's parser runs; the text is kept beside it.
ErrorCode refused() {
  return beast::http::error::bad_value;
}

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What framing rules are broken by these fields, or nothing. Beast lets some of these pass.
std::string_view check_framing(const MessageHead& head) {
  const std::size_t lengths = head.fields.count("Content-Length");
  const std::size_t encodings = head.fields.count("Transfer-Encoding");
  if (lengths > 0 && encodings > 0) return "both Content-Length and Transfer-Encoding";
  if (lengths > 1) return "more than one Content-Length";
  if (encodings > 1) return "more than one Transfer-Encoding";
  if (lengths == 1 && !all_digits(*head.fields.find("Content-Length"))) {
    return "malformed Content-Length";
  }
  if (encodings == 1) {
    if (head.minor == 0) return "Transfer-Encoding in HTTP/1.0";
    if (!iequals(*head.fields.find("Transfer-Encoding"), "chunked")) {
      return "Transfer-Encoding other than chunked";
    }
  }
  return {};
}

bool wants_keep_alive(const MessageHead& head) {
  if (head.fields.has_token("Connection", "close")) return false;
  return head.minor == 1 || head.fields.has_token("Connection", "keep-alive");
}

// Takes an absolute target apart. False when it is not one of http or https.
bool split_absolute(std::string_view target, std::string_view& authority, std::string_view& rest) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() <= scheme.size() || !iequals(target.substr(0, scheme.size()), scheme))
      continue;
    target.remove_prefix(scheme.size());
    const std::size_t end = std::min(target.find_first_of("/?#"), target.size());
    authority = target.substr(0, end);
    rest = target.substr(end);
    return true;
  }
  return false;
}

// Sets authority, host and target; what is wrong with them, or nothing.
std::string_view resolve_target(RequestHead& head) {
  std::string_view authority;
  std::string_view rest;
  const bool absolute = split_absolute(head.target, authority, rest);
  const std::size_t hosts = head.fields.count("Host");
  if (hosts > 1) return "more than one Host";
  if (hosts == 0 && !(absolute && head.minor == 0)) return "no Host";
  head.authority = hosts == 1 ? *head.fields.find("Host") : authority;
  const auto host = parse_host(head.authority);
  if (!host) return "malformed Host";
  head.host = host->host;
  if (head.method == "CONNECT") return {};
  if (absolute) {
    const auto named = parse_host(authority);
    if (!named || *named != *host) return "the target's authority is not Host";
    if (rest.find('#') != std::string_view::npos) return "malformed target";
    std::string target(rest);
    if (target.empty() && head.method == "OPTIONS") {
      target = "*";
    } else if (!target.starts_with('/')) {
      target.insert(0, "/");
    }
    head.target = std::move(target);
    return {};
  }
  if (head.target == "*" && head.method == "OPTIONS") return {};
  return head.target.starts_with('/') ? std::string_view() : "malformed target";
}

std::string_view finish_head(RequestHead& head) {
  if (const auto wrong = check_framing(head); !wrong.empty()) return wrong;
  if (const auto wrong = resolve_target(head); !wrong.empty()) return wrong;
  head.upgrade = head.fields.count("Upgrade") > 0 && head.fields.has_token("Connection", "upgrade");
  return {};
}

std::string_view finish_head(ResponseHead& head) {
  if (head.status < 100) return "malformed status";
  if (head.status == 101) return "switched protocols unasked";
  return check_framing(head);
}

}  // namespace

template <bool kRequest>
class MessageReader<kRequest>::Impl {
 public:
  explicit Impl(bool is_head) : is_head_(is_head) { start(); }

  std::optional<Event> next(link::Bytes& input) {
    switch (state_) {
      case State::kHead:
        return read_head(input);
      case State::kBody:
        return read_body(input);
      case State::kChunkLine:
        return read_chunk_line(input);
      case State::kTrailersDue:
        state_ = State::kEndDue;
        return read::Trailers{std::move(fields_)};
      case State::kEndDue:
        state_ = State::kDone;
        return read::End{};
      case State::kDone:
        return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<Event> finish(bool clean) {
    if (state_ == State::kDone) return std::nullopt;
    if (kRequest && !in_message()) return std::nullopt;
    if (state_ == State::kBody && until_close_ && clean) {
      state_ = State::kDone;
      return read::End{};
    }
    return fail(Kind::kIncomplete,
                clean ? "ended before the message did" : "broke before the message ended");
  }

  bool in_message() const {
    return state_ != State::kDone && !(state_ == State::kHead && lines_.empty());
  }

  void restart() {
    assert(state_ == State::kDone);
    start();
  }

 private:
  enum class State : std::uint8_t { kHead, kBody, kChunkLine, kTrailersDue, kEndDue, kDone };

  class Parser final : public beast::http::basic_parser<kRequest> {
   public:
    explicit Parser(Impl& owner) : owner_(owner) {
      // Not boost::none: Boost 1.74 takes every length as beyond that.
      this->body_limit(std::numeric_limits<std::uint64_t>::max());
      // The reader bounds a head before it gives it to the parser.
      this->header_limit(std::numeric_limits<std::uint32_t>::max());
      this->skip(owner.is_head_);
    }

   private:
    void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target,
                         int version, ErrorCode&) override {
      if constexpr (kRequest) {
        owner_.head_.method = view(method);
        owner_.head_.target = view(target);
        owner_.head_.minor = version % 10;
      }
    }
    void on_response_impl(int status, beast::string_view reason, int version, ErrorCode&) override {
      if constexpr (!kRequest) {
        owner_.head_.status = status;
        owner_.head_.reason = view(reason);
        owner_.head_.minor = version % 10;
      }
    }
    void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                       ErrorCode& error) override {
      if (owner_.fields_.size() == kMaxFields) {
        owner_.too_many_fields_ = true;
        error = refused();
        return;
      }
      owner_.fields_.add(view(name), view(value));
    }
    void on_header_impl(ErrorCode& error) override {
      owner_.head_.fields = std::move(owner_.fields_);
      owner_.fields_ = {};
      owner_.wrong_ = finish_head(owner_.head_);
      if (!owner_.wrong_.empty()) error = refused();
    }
    void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
    std::size_t on_body_impl(beast::string_view body, ErrorCode&) override {
      owner_.body_ = view(body);
      return body.size();
    }
    void on_chunk_header_impl(std::uint64_t size, beast::string_view, ErrorCode&) override {
      owner_.chunk_left_ = size;
    }
    std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, ErrorCode&) override {
      owner_.body_ = view(body);
      owner_.chunk_left_ -= body.size();
      return body.size();
    }
    void on_finish_impl(ErrorCode&) override {}

    Impl& owner_;
  };

  enum class Line : std::uint8_t { kPartial, kWhole, kBad };

  void start() {
    state_ = State::kHead;
    parser_.emplace(*this);
    head_ = {};
    fields_ = {};
    lines_.clear();
    line_begin_ = 0;
    skipped_empty_line_ = false;
    until_close_ = false;
    last_chunk_ = false;
  }

  Event fail(Kind kind, std::string_view text) {
    state_ = State::kDone;
    return read::Error{kind, text};
  }

  // Appends the rest of a line, or all of `input`, to lines_. kBad for a byte that no line may
  // hold: that is told as soon as it is there, so that garbage is not waited for.
  Line take_line(link::Bytes& input) {
    const std::string_view text = link::as_text(input);
    const std::size_t lf = text.find('\n');
    const std::size_t taken = lf == std::string_view::npos ? text.size() : lf + 1;
    char before = lines_.size() > line_begin_ ? lines_.back() : '\0';
    for (const char c : text.substr(0, taken)) {
      const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      // CR may only be followed by LF, LF only follow CR; of other controls only TAB is text.
      if ((before == '\r') != (c == '\n')) return Line::kBad;
      if (control && c != '\n' && c != '\r' && c != '\t') return Line::kBad;
      before = c;
    }
    lines_.append(text.substr(0, taken));
    input = input.subspan(taken);
    return lf == std::string_view::npos ? Line::kPartial : Line::kWhole;
  }

  std::string_view last_line() const { return std::string_view(lines_).substr(line_begin_); }

  std::optional<Event> read_head(link::Bytes& input) {
    while (!input.empty()) {
      // Take no more than the limits leave, so that one large feed is not copied in vain.
      const std::size_t limit = line_begin_ == 0 ? kMaxStartLine : kMaxHead;
      link::Bytes part = input.first(std::min(input.size(), limit + 1 - lines_.size()));
      const std::size_t offered = part.size();
      const Line line = take_line(part);
      if (line == Line::kBad)
        return fail(Kind::kMalformed, "control byte or bare CR or LF in a head");
      input = input.subspan(offered - part.size());
      if (lines_.size() > limit) {
        return fail(Kind::kTooLarge,
                    line_begin_ == 0 ? "start line over 8 KiB" : "header fields over 64 KiB");
      }
      if (line == Line::kPartial) continue;
      const std::string_view last = last_line();
      if (last == "\r\n") {
        if (line_begin_ > 0) return parse_head();
        if (!kRequest || skipped_empty_line_) return fail(Kind::kMalformed, "empty start line");
        skipped_empty_line_ = true;
        lines_.clear();
        continue;
      }
      if (last[0] == ' ' || last[0] == '\t') return fail(Kind::kMalformed, "folded header line");
      // A start line is judged when it is there: garbage is not waited for.
      if (line_begin_ == 0) {
        ErrorCode error;
        parser_->put(boost::asio::buffer(lines_), error);
        if (error != beast::http::error::need_more) return fail(Kind::kMalformed, describe(error));
        start_line_ = lines_.size();
      }
      line_begin_ = lines_.size();
    }
    return std::nullopt;
  }

  Event parse_head() {
    ErrorCode error;
    too_many_fields_ = false;
    wrong_ = {};
    const std::string_view fields = std::string_view(lines_).substr(start_line_);
    const std::size_t used =
        parser_->put(boost::asio::const_buffer(fields.data(), fields.size()), error);
    if (too_many_fields_) return fail(Kind::kTooLarge, "more than 100 header fields");
    if (!wrong_.empty()) return fail(Kind::kMalformed, wrong_);
    if (error) return fail(Kind::kMalformed, describe(error));
    assert(used == fields.size() && parser_->is_header_done());
    static_cast<void>(used);
    // An idle connection must not hold the memory of its largest head.
    lines_ = {};
    line_begin_ = 0;
    return head_read();
  }

  Event head_read() {
    const bool has_length = head_.fields.count("Content-Length") > 0;
    if (has_length) head_.content_length = parser_->content_length().value();
    if constexpr (!kRequest) {
      if (head_.informational()) {
        if (++informational_ > kMaxInformational) {
          return fail(Kind::kMalformed, "too many informational responses");
        }
        Head informational = std::move(head_);
        start();
        return informational;
      }
    }
    if (parser_->is_done()) {
      head_.framing = Framing::kNone;
      state_ = State::kEndDue;
    } else if (parser_->chunked()) {
      head_.framing = Framing::kChunked;
      state_ = State::kChunkLine;
      chunk_left_ = 0;
    } else {
      head_.framing = has_length ? Framing::kLength : Framing::kUntilClose;
      until_close_ = !has_length;
      state_ = State::kBody;
    }
    head_.keep_alive = wants_keep_alive(head_) && head_.framing != Framing::kUntilClose;
    return std::move(head_);
  }

  std::optional<Event> read_body(link::Bytes& input) {
    if (input.empty()) return std::nullopt;
    ErrorCode error;
    const std::size_t used =
        parser_->put(boost::asio::const_buffer(input.data(), input.size()), error);
    if (error) return fail(Kind::kMalformed, describe(error));
    input = input.subspan(used);
    if (parser_->is_done()) state_ = State::kEndDue;
    if (parser_->chunked() && chunk_left_ == 0) state_ = State::kChunkLine;
    return read::Body{std::as_bytes(std::span(body_))};
  }

  // The parser wants the CRLF of the chunk before and a size, or the last chunk and all trailers,
  // in one piece: whole lines are collected until it is content.
  std::optional<Event> read_chunk_line(link::Bytes& input) {
    while (!input.empty()) {
      const std::size_t limit = last_chunk_ ? kMaxTrailers : kMaxChunkLine;
      link::Bytes part = input.first(std::min(input.size(), limit + 1 - lines_.size()));
      const std::size_t offered = part.size();
      const Line line = take_line(part);
      if (line == Line::kBad)
        return fail(Kind::kMalformed, "control byte or bare CR or LF in a chunk");
      input = input.subspan(offered - part.size());
      if (lines_.size() > limit) {
        return last_chunk_ ? fail(Kind::kTooLarge, "trailers over 16 KiB")
                           : fail(Kind::kMalformed, "chunk line over 4 KiB");
      }
      if (line == Line::kPartial) continue;
      const std::string_view last = last_line();
      if (last[0] == ' ' || last[0] == '\t')
        return fail(Kind::kMalformed, "folded line in a chunk");
      line_begin_ = lines_.size();
      if (auto event = parse_chunk_line()) return event;
      if (state_ != State::kChunkLine) return next(input);
    }
    return std::nullopt;
  }

  std::optional<Event> parse_chunk_line() {
    ErrorCode error;
    too_many_fields_ = false;
    const std::size_t used = parser_->put(boost::asio::buffer(lines_), error);
    if (error == beast::http::error::need_more) {
      // A line of its own that is neither the CRLF before nor complete is the last chunk.
      last_chunk_ = lines_ != "\r\n";
      return std::nullopt;
    }
    if (too_many_fields_) return fail(Kind::kTooLarge, "more than 100 trailers");
    if (error) return fail(Kind::kMalformed, describe(error));
    assert(used == lines_.size());
    static_cast<void>(used);
    lines_.clear();
    line_begin_ = 0;
    if (!parser_->is_done()) {
      state_ = State::kBody;
    } else {
      state_ = fields_.empty() ? State::kEndDue : State::kTrailersDue;
    }
    return std::nullopt;
  }

  static std::string_view describe(const ErrorCode& code) {
    using beast::http::error;
    if (code == error::bad_method) return "malformed method";
    if (code == error::bad_target) return "malformed target";
    if (code == error::bad_version) return "malformed or unsupported version";
    if (code == error::bad_status || code == error::bad_reason) return "malformed status line";
    if (code == error::bad_field) return "malformed header name";
    if (code == error::bad_value) return "malformed header value";
    if (code == error::bad_content_length)
      return "malformed Content-Length, or not the only framing";
    if (code == error::bad_transfer_encoding) return "Transfer-Encoding is not the only framing";
    if (code == error::bad_chunk) return "malformed chunk";
    if (code == error::bad_chunk_extension) return "malformed chunk extension";
    return "malformed message";
  }

  const bool is_head_;
  State state_ = State::kHead;
  std::optional<Parser> parser_;
  Head head_;
  Fields fields_;      // of the head or the trailers that are being parsed
  std::string lines_;  // a head, a chunk line or trailers, as far as they have come
  std::size_t line_begin_ = 0;
  std::size_t start_line_ = 0;  // its size, once it was read
  std::string_view body_;       // what the parser's last step passed on
  std::uint64_t chunk_left_ = 0;
  int informational_ = 0;
  std::string_view wrong_;  // why finish_head() refused
  bool too_many_fields_ = false;
  bool skipped_empty_line_ = false;
  bool until_close_ = false;
  bool last_chunk_ = false;
};

template <bool kRequest>
MessageReader<kRequest>::MessageReader() requires(kRequest)
    : impl_(std::make_unique<Impl>(false)) {}

template <bool kRequest>
MessageReader<kRequest>::MessageReader(std::string_view method) requires(!kRequest)
    : impl_(std::make_unique<Impl>(method == "HEAD")) {}

template <bool kRequest>
MessageReader<kRequest>::~MessageReader() = default;
template <bool kRequest>
MessageReader<kRequest>::MessageReader(MessageReader&&) noexcept = default;
template <bool kRequest>
MessageReader<kRequest>& MessageReader<kRequest>::operator=(MessageReader&&) noexcept = default;

template <bool kRequest>
auto MessageReader<kRequest>::next(link::Bytes& input) -> std::optional<Event> {
  return impl_->next(input);
}

template <bool kRequest>
auto MessageReader<kRequest>::finish(bool clean) -> std::optional<Event> {
  return impl_->finish(clean);
}

template <bool kRequest>
bool MessageReader<kRequest>::in_message() const {
  return impl_->in_message();
}

template <bool kRequest>
void MessageReader<kRequest>::restart() {
  impl_->restart();
}

template class MessageReader<true>;
template class MessageReader<false>;

}  // namespace fairlead::dataplane
