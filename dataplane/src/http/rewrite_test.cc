#include "http/rewrite.h"

#include <gtest/gtest.h>

namespace fairlead::dataplane {
namespace {

RequestHead request(std::initializer_list<Fields::Field> fields) {
  RequestHead head;
  head.method = "GET";
  head.target = "/x";
  head.authority = "Web.test:80";
  head.host = "web.test";
  for (const auto& field : fields) head.fields.add(field.name, field.value);
  return head;
}

VisitorSource from(std::string_view ip, bool trusted = false, bool tls = false) {
  return {*IpAddress::parse(ip), trusted, tls};
}

// What an untrusted visitor at 192.0.2.1 gets set.
const std::string kForwarded =
    "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: Web.test:80\r\n";
const std::string kStart = "GET /x HTTP/1.1\r\nHost: Web.test:80\r\n";

TEST(VisitRequestHead, RemovesWhatBelongsToOneConnection) {
  const RequestHead head = request({{"Host", "Web.test:80"},
                                    {"Accept", "*/*"},
                                    {"Connection", "close, X-Hop , x-other"},
                                    {"X-Hop", "1"},
                                    {"X-Other", "2"},
                                    {"x-kept", "3"},
                                    {"Keep-Alive", "timeout=5"},
                                    {"Proxy-Connection", "close"},
                                    {"Proxy-Authorization", "secret"},
                                    {"Proxy", "http://evil"},
                                    {"TE", "trailers"},
                                    {"Upgrade", "h2c"},
                                    {"HTTP2-Settings", "AAA"},
                                    {"Trailer", "X-Sum"},
                                    {"Expect", "100-continue"},
                                    {"X-Fairlead-Hop", "1"},
                                    {"Accept", "second"}});
  EXPECT_EQ(visit_request_head(head, from("192.0.2.1")),
            kStart + "Accept: */*\r\nx-kept: 3\r\nTrailer: X-Sum\r\nExpect: 100-continue\r\n" +
                "Accept: second\r\n" + kForwarded + "\r\n");
}

TEST(VisitRequestHead, ConnectionCannotRemoveWhatFairleadSets) {
  RequestHead head = request(
      {{"Host", "Web.test:80"},
       {"Connection", "Host, Content-Length, X-Forwarded-For, Transfer-Encoding, Connection"},
       {"Content-Length", "5"}});
  head.framing = Framing::kLength;
  head.content_length = 5;
  EXPECT_EQ(visit_request_head(head, from("192.0.2.1")),
            kStart + kForwarded + "Content-Length: 5\r\n\r\n");
}

TEST(VisitRequestHead, OnlyATrustedProxySaysWhoItsClientIs) {
  const RequestHead head = request({{"X-Forwarded-For", "203.0.113.9"},
                                    {"x-forwarded-for", "198.51.100.1"},
                                    {"X_Forwarded_For", "203.0.113.8"},
                                    {"X-Forwarded-Proto", "https"},
                                    {"X-Forwarded-Host", "other.test"},
                                    {"X-Forwarded-Port", "1"},
                                    {"X-Real-IP", "203.0.113.7"},
                                    {"Forwarded", "for=203.0.113.6"}});
  EXPECT_EQ(visit_request_head(head, from("192.0.2.1")), kStart + kForwarded + "\r\n");
  EXPECT_EQ(visit_request_head(head, from("192.0.2.1", true)),
            kStart +
                "X-Forwarded-Port: 1\r\nX-Real-IP: 203.0.113.7\r\nForwarded: for=203.0.113.6\r\n"
                "X-Forwarded-For: 203.0.113.9, 198.51.100.1, 192.0.2.1\r\n"
                "X-Forwarded-Proto: https\r\nX-Forwarded-Host: other.test\r\n\r\n");
  EXPECT_EQ(visit_request_head(request({}), from("2001:db8::1", true, true)),
            kStart +
                "X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: https\r\n"
                "X-Forwarded-Host: Web.test:80\r\n\r\n");
}

TEST(VisitRequestHead, FramingIsStatedAnew) {
  RequestHead head = request({{"Transfer-Encoding", "Chunked"}});
  head.framing = Framing::kChunked;
  EXPECT_EQ(visit_request_head(head, from("192.0.2.1")),
            kStart + kForwarded + "Transfer-Encoding: chunked\r\n\r\n");
  head = request({{"Content-Length", "0"}});
  head.content_length = 0;
  EXPECT_EQ(visit_request_head(head, from("192.0.2.1")),
            kStart + kForwarded + "Content-Length: 0\r\n\r\n");
}

TEST(VisitRequestHead, ExpectOfHttp10MeansNothing) {
  RequestHead head = request({{"Expect", "100-continue"}});
  head.minor = 0;
  EXPECT_EQ(visit_request_head(head, from("192.0.2.1")), kStart + kForwarded + "\r\n");
}

TEST(UpstreamRequestHead, ClosesAfterOneExchange) {
  RequestHead head = request({{"Host", "Web.test:80"}, {"Connection", "keep-alive"}, {"A", "b"}});
  head.framing = Framing::kChunked;
  EXPECT_EQ(upstream_request_head(head),
            kStart + "A: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
}

ResponseHead response(int status, std::initializer_list<Fields::Field> fields) {
  ResponseHead head;
  head.status = status;
  head.reason = "Why";
  for (const auto& field : fields) head.fields.add(field.name, field.value);
  return head;
}

TEST(VisitResponseHead, UpstreamsCannotSetWhatIsFairleads) {
  ResponseHead head = response(200, {{"X-Fairlead-Error", "FL-1001"},
                                     {"Set-Cookie", "a"},
                                     {"set-cookie", "b"},
                                     {"Connection", "close, X-Hop"},
                                     {"X-Hop", "1"},
                                     {"Upgrade", "h2"},
                                     {"Content-Length", "5"}});
  head.framing = Framing::kLength;
  head.content_length = 5;
  EXPECT_EQ(visit_response_head(head),
            "HTTP/1.1 200 Why\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 5\r\n\r\n");
}

TEST(VisitResponseHead, ABodyUntilTheCloseBecomesChunks) {
  ResponseHead head = response(200, {});
  head.minor = 0;
  head.framing = Framing::kUntilClose;
  EXPECT_EQ(visit_response_head(head), "HTTP/1.1 200 Why\r\nTransfer-Encoding: chunked\r\n\r\n");
}

TEST(VisitResponseHead, LengthsOfResponsesWithoutABody) {
  ResponseHead head = response(304, {{"Content-Length", "5"}});
  head.content_length = 5;
  EXPECT_EQ(visit_response_head(head), "HTTP/1.1 304 Why\r\nContent-Length: 5\r\n\r\n");
  head.status = 204;
  EXPECT_EQ(visit_response_head(head), "HTTP/1.1 204 Why\r\n\r\n");
  head.status = 103;
  EXPECT_EQ(visit_response_head(head), "HTTP/1.1 103 Why\r\n\r\n");
}

TEST(VisitorResponseHead, SaysHowTheBodyAndTheConnectionEnd) {
  ResponseHead head = response(200, {{"X-Fairlead-Error", "FL-1003"}});
  EXPECT_EQ(visitor_response_head(head, Framing::kUntilClose, "close"),
            "HTTP/1.1 200 Why\r\nX-Fairlead-Error: FL-1003\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(visitor_response_head(head, Framing::kChunked, ""),
            "HTTP/1.1 200 Why\r\nX-Fairlead-Error: FL-1003\r\nTransfer-Encoding: chunked\r\n\r\n");
}

}  // namespace
}  // namespace fairlead::dataplane
