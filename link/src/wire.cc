#include "wire.h"

#include <algorithm>
#include <array>

namespace fairlead::link::wire {
namespace {

// HELLO's TLVs: type u8, length u8, value.
enum class Tlv : std::uint8_t {
  kVersions = 1,
  kSoftware = 2,
  kRole = 3,
  kName = 4,
  kMaxFrame = 5,
  kInitialWindow = 6,
  kOpens = 7,
  kKeepalive = 8,
};

template <typename T>
T load(Bytes bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((value << 8) | std::to_integer<T>(bytes[i]));
  }
  return value;
}

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    const T value = load<T>(bytes_.first(sizeof(T)));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  Bytes rest() const { return bytes_; }

 private:
  Bytes bytes_;
};

class Appender {
 public:
  explicit Appender(std::vector<std::byte>& out) : out_(out) {}
  template <typename T>
  Appender& put(T value) {
    for (std::size_t i = sizeof(T); i-- > 0;) {
      out_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
    return *this;
  }
  Appender& put(Bytes bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Appender& put(std::string_view text, std::size_t most) {
    return put(as_bytes(text.substr(0, most)));
  }

 private:
  std::vector<std::byte>& out_;
};

struct Shape {
  Type type;
  std::string_view name;
  std::size_t min, max;  // payload bytes
  std::uint8_t flags;    // allowed
  bool on_link;          // session must be 0; otherwise it must not be
};
constexpr std::array kShapes = {
    Shape{Type::kHello, "HELLO", 4, kMaxHello, 0, true},
    Shape{Type::kOpen, "OPEN", 14, 14 + kMaxMeta, kFlagVisit, false},
    Shape{Type::kAccept, "ACCEPT", 12, 12 + kMaxMeta, 0, false},
    Shape{Type::kData, "DATA", 0, kMaxDataPayload, kFlagFin, false},
    Shape{Type::kCredit, "CREDIT", 16, 16, 0, false},
    Shape{Type::kReset, "RESET", 12, 12, 0, false},
    Shape{Type::kStop, "STOP", 4, 4, 0, false},
    Shape{Type::kPing, "PING", 8, 8, 0, true},
    Shape{Type::kPong, "PONG", 8, 8, 0, true},
    Shape{Type::kOpens, "OPENS", 4, 4, 0, true},
    Shape{Type::kGoaway, "GOAWAY", 10, 10 + kMaxText, 0, true},
    Shape{Type::kClose, "CLOSE", 4, 4 + kMaxText, 0, true},
};

const Shape* shape_of(std::uint8_t type) {
  const auto found = std::find_if(kShapes.begin(), kShapes.end(), [type](const Shape& shape) {
    return static_cast<std::uint8_t>(shape.type) == type;
  });
  return found == kShapes.end() ? nullptr : &*found;
}

std::string check_shape(const Header& header, const Shape& shape) {
  const std::string name(shape.name);
  if (header.length < shape.min || header.length > shape.max) {
    return name + " of " + std::to_string(header.length) + " bytes: allowed is " +
           std::to_string(shape.min) + " to " + std::to_string(shape.max);
  }
  if ((header.flags & ~shape.flags) != 0) {
    return name + " with unknown flags " + std::to_string(header.flags);
  }
  if (shape.on_link && header.session != 0) {
    return name + " on session " + std::to_string(header.session) + ": it belongs to session 0";
  }
  if (!shape.on_link && header.session == 0) return name + " on session 0";
  return {};
}

bool put_hello_field(Hello& hello, Tlv type, Bytes value, std::string& error) {
  const auto number = [&](std::uint32_t& field, std::uint32_t least, const char* name) {
    if (value.size() != 4) {
      error = std::string("HELLO: ") + name + " must have 4 bytes";
      return false;
    }
    field = load<std::uint32_t>(value);
    if (field >= least) return true;
    error = std::string("HELLO: ") + name + " " + std::to_string(field) +
            " is below the protocol's minimum of " + std::to_string(least);
    return false;
  };
  const auto text = [&](std::string& field, const char* name) {
    if (value.size() > kMaxHelloText) {
      error = std::string("HELLO: ") + name + " is longer than " + std::to_string(kMaxHelloText) +
              " bytes";
      return false;
    }
    field = std::string(as_text(value));
    return true;
  };
  switch (type) {
    case Tlv::kVersions:
      for (const std::byte version : value) {
        hello.versions.push_back(std::to_integer<std::uint8_t>(version));
      }
      return true;
    case Tlv::kSoftware:
      return text(hello.software, "software");
    case Tlv::kRole:
      return text(hello.role, "role");
    case Tlv::kName:
      return text(hello.name, "name");
    case Tlv::kMaxFrame:
      return number(hello.max_frame, kMaxDataPayload, "max_frame");
    case Tlv::kInitialWindow:
      return number(hello.initial_window, kFloorWindow, "initial_window");
    case Tlv::kOpens:
      return number(hello.opens, kMinOpens, "opens");
    case Tlv::kKeepalive:
      if (value.size() != 8) {
        error = "HELLO: keepalive must have 8 bytes";
        return false;
      }
      hello.liveness = Liveness{std::chrono::milliseconds(load<std::uint32_t>(value.first(4))),
                                std::chrono::milliseconds(load<std::uint32_t>(value.subspan(4)))};
      return true;
  }
  return true;  // unknown: ignored, so that later versions may add
}

std::optional<Frame> decode_hello(Bytes payload, std::string& error) {
  Reader reader(payload);
  if (reader.take<std::uint32_t>() != kMagic) {
    error = "HELLO without the magic word: the peer does not speak link";
    return std::nullopt;
  }
  Hello hello;
  std::array<bool, 256> seen{};
  Bytes rest = reader.rest();
  while (!rest.empty()) {
    if (rest.size() < 2 || rest.size() - 2 < std::to_integer<std::size_t>(rest[1])) {
      error = "HELLO: a field is cut short";
      return std::nullopt;
    }
    const auto type = std::to_integer<std::uint8_t>(rest[0]);
    const Bytes value = rest.subspan(2, std::to_integer<std::size_t>(rest[1]));
    if (seen[type]) {
      error = "HELLO: field " + std::to_string(type) + " comes twice";
      return std::nullopt;
    }
    seen[type] = true;
    if (!put_hello_field(hello, static_cast<Tlv>(type), value, error)) return std::nullopt;
    rest = rest.subspan(2 + value.size());
  }
  return hello;
}

std::optional<Frame> decode_open(const Header& header, Bytes payload, std::string& error) {
  Reader reader(payload);
  Open open{};
  open.limit = reader.take<std::uint64_t>();
  const auto priority = reader.take<std::uint8_t>();
  open.weight = reader.take<std::uint8_t>();
  open.path_rtt_us = reader.take<std::uint32_t>();
  open.visit = (header.flags & kFlagVisit) != 0;
  open.meta = reader.rest();
  if (priority > static_cast<std::uint8_t>(Priority::kBackground)) {
    error = "OPEN with unknown class " + std::to_string(priority);
    return std::nullopt;
  }
  if (open.weight == 0) {
    error = "OPEN with weight 0: allowed is 1 to 255";
    return std::nullopt;
  }
  open.priority = static_cast<Priority>(priority);
  return open;
}

std::optional<Frame> decode_goaway(Bytes payload, std::string& error) {
  Reader reader(payload);
  Goaway goaway;
  goaway.phase = reader.take<std::uint8_t>();
  const auto reason = reader.take<std::uint8_t>();
  goaway.last_id = reader.take<std::uint32_t>();
  goaway.grace_ms = reader.take<std::uint32_t>();
  goaway.text = std::string(as_text(reader.rest()));
  if (goaway.phase > 1) {
    error = "GOAWAY with unknown phase " + std::to_string(goaway.phase);
    return std::nullopt;
  }
  if (reason != 1 && reason != 2) {
    error = "GOAWAY with unknown reason " + std::to_string(reason);
    return std::nullopt;
  }
  goaway.reason = static_cast<GoawayReason>(reason);
  return goaway;
}

std::vector<std::byte> hello_payload(const Hello& hello) {
  std::vector<std::byte> out;
  Appender append(out);
  append.put(kMagic);
  const auto field = [&](Tlv type, Bytes value) {
    append.put(static_cast<std::uint8_t>(type)).put(static_cast<std::uint8_t>(value.size()));
    append.put(value);
  };
  const auto text = [&](Tlv type, std::string_view value) {
    if (!value.empty()) field(type, as_bytes(value.substr(0, kMaxHelloText)));
  };
  const auto number = [&](Tlv type, std::uint32_t value) {
    std::vector<std::byte> bytes;
    Appender(bytes).put(value);
    field(type, bytes);
  };
  field(Tlv::kVersions, std::as_bytes(std::span(hello.versions)));
  text(Tlv::kSoftware, hello.software);
  text(Tlv::kRole, hello.role);
  text(Tlv::kName, hello.name);
  number(Tlv::kMaxFrame, hello.max_frame);
  number(Tlv::kInitialWindow, hello.initial_window);
  number(Tlv::kOpens, hello.opens);
  if (hello.liveness) {
    std::vector<std::byte> bytes;
    Appender(bytes)
        .put(static_cast<std::uint32_t>(hello.liveness->interval.count()))
        .put(static_cast<std::uint32_t>(hello.liveness->timeout.count()));
    field(Tlv::kKeepalive, bytes);
  }
  return out;
}

struct Encoder {
  std::vector<std::byte>& out;

  std::pair<Type, std::uint8_t> operator()(const Hello& frame) const {
    Appender(out).put(Bytes(hello_payload(frame)));
    return {Type::kHello, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Open& frame) const {
    Appender(out)
        .put(frame.limit)
        .put(static_cast<std::uint8_t>(frame.priority))
        .put(frame.weight)
        .put(frame.path_rtt_us)
        .put(frame.meta);
    return {Type::kOpen, frame.visit ? kFlagVisit : std::uint8_t{0}};
  }
  std::pair<Type, std::uint8_t> operator()(const Accept& frame) const {
    Appender(out).put(frame.limit).put(frame.path_rtt_us).put(frame.meta);
    return {Type::kAccept, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Data& frame) const {
    Appender(out).put(frame.bytes);
    return {Type::kData, frame.fin ? kFlagFin : std::uint8_t{0}};
  }
  std::pair<Type, std::uint8_t> operator()(const Credit& frame) const {
    Appender(out).put(frame.limit).put(frame.received);
    return {Type::kCredit, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Reset& frame) const {
    Appender(out).put(frame.code).put(frame.final);
    return {Type::kReset, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Stop& frame) const {
    Appender(out).put(frame.code);
    return {Type::kStop, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Ping& frame) const {
    Appender(out).put(frame.token);
    return {Type::kPing, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Pong& frame) const {
    Appender(out).put(frame.token);
    return {Type::kPong, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Opens& frame) const {
    Appender(out).put(frame.limit);
    return {Type::kOpens, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Goaway& frame) const {
    Appender(out)
        .put(frame.phase)
        .put(static_cast<std::uint8_t>(frame.reason))
        .put(frame.last_id)
        .put(frame.grace_ms)
        .put(frame.text, kMaxText);
    return {Type::kGoaway, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Close& frame) const {
    Appender(out).put(frame.code).put(frame.text, kMaxText);
    return {Type::kClose, 0};
  }
  std::pair<Type, std::uint8_t> operator()(const Skipped&) const {
    return {static_cast<Type>(kFirstSkippable), 0};
  }
};

}  // namespace

Header decode_header(Bytes eight) {
  Reader reader(eight);
  Header header;
  header.length = reader.take<std::uint16_t>();
  header.type = reader.take<std::uint8_t>();
  header.flags = reader.take<std::uint8_t>();
  header.session = reader.take<std::uint32_t>();
  return header;
}

std::optional<Frame> decode(const Header& header, Bytes payload, std::string& error) {
  if (header.type >= kFirstSkippable) return Skipped{};
  const Shape* shape = shape_of(header.type);
  if (shape == nullptr) {
    error = "unknown frame type " + std::to_string(header.type);
    return std::nullopt;
  }
  error = check_shape(header, *shape);
  if (!error.empty()) return std::nullopt;
  Reader reader(payload);
  switch (shape->type) {
    case Type::kHello:
      return decode_hello(payload, error);
    case Type::kOpen:
      return decode_open(header, payload, error);
    case Type::kAccept: {
      const auto limit = reader.take<std::uint64_t>();
      const auto path_rtt_us = reader.take<std::uint32_t>();
      return Accept{limit, path_rtt_us, reader.rest()};
    }
    case Type::kData: {
      const bool fin = (header.flags & kFlagFin) != 0;
      if (payload.empty() && !fin) {
        error = "empty DATA without FIN";
        return std::nullopt;
      }
      return Data{payload, fin};
    }
    case Type::kCredit: {
      const auto limit = reader.take<std::uint64_t>();
      return Credit{limit, reader.take<std::uint64_t>()};
    }
    case Type::kReset: {
      const auto code = reader.take<std::uint32_t>();
      return Reset{code, reader.take<std::uint64_t>()};
    }
    case Type::kStop:
      return Stop{reader.take<std::uint32_t>()};
    case Type::kPing:
      return Ping{reader.take<std::uint64_t>()};
    case Type::kPong:
      return Pong{reader.take<std::uint64_t>()};
    case Type::kOpens:
      return Opens{reader.take<std::uint32_t>()};
    case Type::kGoaway:
      return decode_goaway(payload, error);
    case Type::kClose: {
      const auto code = reader.take<std::uint32_t>();
      return Close{code, std::string(as_text(reader.rest()))};
    }
  }
  return std::nullopt;
}

void encode_header(const Header& header, std::span<std::byte> eight) {
  eight[0] = static_cast<std::byte>(header.length >> 8);
  eight[1] = static_cast<std::byte>(header.length & 0xff);
  eight[2] = static_cast<std::byte>(header.type);
  eight[3] = static_cast<std::byte>(header.flags);
  for (int i = 0; i < 4; ++i) {
    eight[4 + i] = static_cast<std::byte>(header.session >> (8 * (3 - i)));
  }
}

void encode(SessionId session, const Frame& frame, std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  out.resize(start + kHeaderSize);
  const auto [type, flags] = std::visit(Encoder{out}, frame);
  const Header header{static_cast<std::uint16_t>(out.size() - start - kHeaderSize),
                      static_cast<std::uint8_t>(type), flags, session};
  encode_header(header, std::span(out).subspan(start, kHeaderSize));
}

}  // namespace fairlead::link::wire
