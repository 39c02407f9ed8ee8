// A steady stream of HTTP requests, half of them on kept connections and half on new ones.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <memory>
#include <string>

#include "../net.h"
#include "../tally.h"

namespace fairlead::e2e {

// Each request is one visit in the tally. GET /file, GET /chunked and POST /echo take turns; every
// body is compared with the pattern. A request that fails by a connect error, a reset, a short
// body, a wrong byte, a status other than 200 or the time limit is lost; it is never repeated. A
// kept connection that the server closed while it was idle, or after an answer that said so, is
// replaced by a new one and counts as `reopened()`, not as a failure.
class HttpLoad : public std::enable_shared_from_this<HttpLoad> {
 public:
  struct Options {
    tcp::endpoint server;
    std::string host;
    std::uint32_t per_second = 50;
    std::size_t kept = 8;                    // connections that are kept
    std::size_t body = 2000;                 // bytes of each answer
    std::chrono::milliseconds limit{15000};  // of one request
  };

  HttpLoad(const asio::any_io_executor& executor, Tally& tally, Options options);

  void start();
  void stop();  // starts no more; what runs ends by itself

  std::uint64_t reopened() const { return reopened_; }

 private:
  struct Link {
    explicit Link(const asio::any_io_executor& executor) : socket(executor) {}
    tcp::socket socket;
    boost::beast::flat_buffer buffer;
    bool reusable = false;
  };
  using LinkPtr = std::shared_ptr<Link>;
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  struct Expected {
    Request request;
    std::uint64_t seed = 0;
  };

  Task<> tick(std::shared_ptr<HttpLoad> self);
  Task<> request(std::shared_ptr<HttpLoad> self, std::uint64_t number);
  Task<std::string> exchange(LinkPtr link, Expected expected);
  Expected make(std::uint64_t number, bool keep) const;
  LinkPtr idle_link();

  asio::any_io_executor executor_;
  Tally& tally_;
  Options options_;
  asio::steady_timer timer_;
  std::deque<LinkPtr> idle_;
  std::uint64_t reopened_ = 0;
  bool stopped_ = false;
};

}  // namespace fairlead::e2e
