#include "http/error_page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "http/message_reader.h"

namespace fairlead::dataplane {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A row of the table in docs/errors.md.
std::string row(const HttpErrorInfo& info) {
  std::string status = std::to_string(info.status);
  if (info.retry_after_s > 0) status += ", Retry-After: " + std::to_string(info.retry_after_s);
  return "| " + http_error_code(info.error) + " | " + status + " | " + std::string(info.title) +
         " | " + std::string(info.remedy) + " |\n";
}

TEST(ErrorPage, DocumentListsEveryCodeAndNoOther) {
  const std::string text = file_text(FAIRLEAD_DOCS "/errors.md");
  std::string table;
  for (const HttpErrorInfo& info : http_errors()) {
    EXPECT_NE(text.find(row(info)), std::string::npos) << "docs/errors.md lacks:\n" << row(info);
    table += row(info);
  }
  std::size_t rows = 0;
  for (std::size_t at = text.find("| FL-"); at != std::string::npos;
       at = text.find("| FL-", at + 1)) {
    ++rows;
  }
  EXPECT_EQ(rows, http_errors().size()) << "the table should be:\n" << table;
}

TEST(ErrorPage, CodesAreUniqueAscendingAndFound) {
  int last = 1000;
  for (const HttpErrorInfo& info : http_errors()) {
    EXPECT_EQ(static_cast<int>(info.error), last + 1) << "a number is never left out or reused";
    last = static_cast<int>(info.error);
    EXPECT_EQ(&http_error_info(info.error), &info);
    EXPECT_EQ(info.status == 503, info.retry_after_s > 0) << "503 says when to come back";
  }
}

TEST(ErrorPage, EveryPageIsAWellFormedResponseWithItsCode) {
  for (const HttpErrorInfo& info : http_errors()) {
    for (const bool html : {false, true}) {
      for (const bool without_body : {false, true}) {
        const std::string page = render_error(info.error, {html, without_body, "close"});
        ResponseReader reader(without_body ? "HEAD" : "GET");
        link::Bytes input = link::as_bytes(page);
        auto event = reader.next(input);
        ASSERT_TRUE(event && std::holds_alternative<ResponseHead>(*event)) << page;
        const auto& head = std::get<ResponseHead>(*event);
        EXPECT_EQ(head.status, info.status);
        EXPECT_EQ(head.fields.find("X-Fairlead-Error"), http_error_code(info.error));
        EXPECT_FALSE(head.keep_alive);
        EXPECT_EQ(head.fields.count("Retry-After"), info.retry_after_s > 0 ? 1u : 0u);
        event = reader.next(input);
        if (!without_body) {
          const std::string_view body = link::as_text(std::get<read::Body>(*event).bytes);
          EXPECT_NE(body.find(http_error_code(info.error)), std::string_view::npos);
          EXPECT_EQ(body.find('<') != std::string_view::npos, html);
          event = reader.next(input);
        }
        EXPECT_TRUE(std::holds_alternative<read::End>(*event));
        EXPECT_TRUE(input.empty());
      }
    }
  }
}

TEST(ErrorPage, FixedTextsNeedNoEscaping) {
  for (const HttpErrorInfo& info : http_errors()) {
    for (const std::string_view text : {info.reason, info.title, info.remedy}) {
      EXPECT_EQ(text.find_first_of("<>&\"'|"), std::string_view::npos) << text;
    }
  }
}

TEST(ErrorPage, LossesHaveTheirPage) {
  EXPECT_EQ(http_error_of(Outcome::kAgentLost), HttpError::kPathLost);
  EXPECT_EQ(http_error_of(Outcome::kPathLost), HttpError::kPathLost);
  EXPECT_EQ(http_error_of(Outcome::kNoAgent), HttpError::kAgentOffline);
  EXPECT_EQ(http_error_of(Outcome::kNotHere), HttpError::kAgentOffline);
  EXPECT_EQ(http_error_of(Outcome::kUpstreamRefused), HttpError::kUpstreamRefused);
  EXPECT_EQ(http_error_of(Outcome::kUpstreamReset), HttpError::kUpstreamBroke);
  EXPECT_EQ(http_error_of(Outcome::kDrainTimeout), HttpError::kDraining);
  EXPECT_EQ(http_error_of(Outcome::kOverloaded), HttpError::kOverloaded);
  for (int i = 0; i < kOutcomes; ++i) {
    EXPECT_GE(http_error_info(http_error_of(static_cast<Outcome>(i))).status, 500);
  }
}

}  // namespace
}  // namespace fairlead::dataplane
