// Which requests are served at all. RFC 9112 lets a server guess where a message ends in some cases in which a proxy in
// front may guess otherwise (request smuggling); none of those is served. Nor is what a browser sends for a page of
// another site: by its name (DNS rebinding) or in its name (Origin).

#include <algorithm>

#include "serve/body.h"
#include "serve/request.h"

namespace lamina::app {
namespace {

namespace http = boost::beast::http;

/// "[::1]:8080" and "localhost" without the port.
std::string name_of(std::string_view authority) {
  const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == authority.npos) return lower(authority);
  return lower(authority.substr(0, std::min(authority.find(':', bracket), authority.size())));
}

/// NAME, NAME:PORT or [ADDRESS]:PORT. What else could be told apart in two ways: localhost:80@example.com.
bool is_authority(std::string_view text) {
  const std::size_t name = name_of(text).size();
  const std::string_view port = text.substr(name);
  return text.find_first_of("@/?#\\, \t") == text.npos &&
         (port.empty() || (port.size() > 1 && port.size() < 7 && port.find_first_not_of("0123456789", 1) == port.npos));
}

bool is_allowed(const std::string& name, const ServerOptions& options) {
  for (const char* local : {"localhost", "127.0.0.1", "[::1]"}) {
    if (name == local) return true;
  }
  if (name == lower(options.host) || name == '[' + lower(options.host) + ']') return true;
  return std::ranges::any_of(options.allowed_hosts, [&](const std::string& host) { return name == lower(host); });
}

}  // namespace

Verdict judge(const http::request_header<>& head, const ServerOptions& options) {
  const auto method = head.method();
  if (method != http::verb::get && method != http::verb::head && method != http::verb::post) {
    return {405, "expected GET, HEAD or POST"};
  }
  if (!head.target().starts_with('/')) return {400, "expected a path as the request's target"};
  const bool chunked = head.count(http::field::transfer_encoding) > 0;
  if (chunked && (lower(view(head[http::field::transfer_encoding])) != "chunked" || head.version() != 11)) {
    return {501, "expected no Transfer-Encoding but chunked"};
  }
  const std::size_t lengths = head.count(http::field::content_length);
  if (lengths > 0 && chunked) return {400, "both Content-Length and Transfer-Encoding are given"};
  const std::string_view length = view(head[http::field::content_length]);
  if (lengths > 1 || (lengths == 1 && length.find_first_not_of("0123456789") != length.npos)) {
    return {400, "expected one Content-Length, a number"};
  }
  if (method == http::verb::post && lengths == 0 && !chunked) return {411, "expected a Content-Length"};
  if (method != http::verb::post && (chunked || length.find_first_not_of('0') != length.npos)) {
    return {400, "expected no body of GET and HEAD"};
  }
  const std::size_t hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && head.version() == 11)) return {400, "expected one Host"};
  if (!is_authority(view(head[http::field::host]))) return {400, "expected a Host of a name and a port"};
  if (head.count(http::field::origin) > 1) return {400, "expected one Origin"};
  if (options.check_host && hosts == 1 && !is_allowed(name_of(view(head[http::field::host])), options)) {
    return {403, "the server is not asked for by this Host: --allow-host adds names"};
  }
  if (const std::string_view origin = view(head[http::field::origin]); !origin.empty()) {
    const std::size_t scheme = origin.find("://");
    const std::string_view site = scheme == origin.npos ? std::string_view() : origin.substr(scheme + 3);
    if (!is_authority(site)) return {400, "expected an Origin of a scheme, a name and a port"};
    if (site.empty() || (lower(site) != lower(view(head[http::field::host])) && !is_allowed(name_of(site), options))) {
      return {403, "requests from pages of other sites are not served: --allow-host adds names"};
    }
  }
  return {};
}

}  // namespace lamina::app
