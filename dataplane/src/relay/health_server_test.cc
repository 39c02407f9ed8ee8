#include "health_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

namespace fairlead::dataplane {
namespace {

using boost::asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ask(const tcp::endpoint& endpoint, std::string_view request) {
  boost::asio::io_context context;
  tcp::socket socket(context);
  socket.connect(endpoint);
  boost::asio::write(socket, boost::asio::buffer(request));
  std::string answer;
  boost::system::error_code error;
  boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
  return answer;
}

class HealthServerTest : public ::testing::Test {
 protected:
  HealthServer server{
      tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), 0),
      [](const std::string& method, const std::string& path, const std::string& query, bool here) {
        return HealthReply{path == "/bad" ? 503u : 200u, "text/plain",
                           method + " " + path + " " + query + (here ? " here" : "")};
      }};
};

TEST_F(HealthServerTest, AnswersWithWhatTheOwnerSays) {
  const std::string ok = ask(server.endpoint(), "GET /x?a=b HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(ok, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ok, HasSubstr("GET /x a=b here"));
  EXPECT_THAT(ask(server.endpoint(), "GET /bad HTTP/1.1\r\nHost: h\r\n\r\n"),
              StartsWith("HTTP/1.1 503"));
}

TEST_F(HealthServerTest, HeadHasNoBody) {
  const std::string answer = ask(server.endpoint(), "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST_F(HealthServerTest, ClosesOnGarbageAndOnBodies) {
  EXPECT_EQ(ask(server.endpoint(), "\x16\x03\x01 garbage\r\n\r\n"), "");
  EXPECT_EQ(ask(server.endpoint(), "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"), "");
}

}  // namespace
}  // namespace fairlead::dataplane
