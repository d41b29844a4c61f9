#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lamina/files/weights.h"
#include "support/file_test.h"

/// Writes pickles and the containers around them by hand, so that tests can write wrong ones.
namespace lamina::test {

namespace pickle {

inline std::string proto(int version = 2) { return {'\x80', static_cast<char>(version)}; }
inline std::string text(const std::string& value) {
  return 'X' + raw(static_cast<std::uint32_t>(value.size())) + value;
}
inline std::string integer(std::int64_t value) { return "\x8a\x08" + raw(value); }  // LONG1
inline std::string global(const std::string& module, const std::string& name) {
  return 'c' + module + '\n' + name + '\n';
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + 't';
}
inline std::string sizes(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items) out += text(key) + value;
  return out + 'u';
}
inline const std::string ordered_dict = global("collections", "OrderedDict") + ")R";

/// A storage; `view` is appended to its tuple where given.
inline std::string storage(const std::string& key, std::int64_t numel, const std::string& type = "FloatStorage",
                           const std::string& view = {}) {
  std::vector<std::string> items = {text("storage"), global("torch", type), text(key), text("cpu"), integer(numel)};
  if (!view.empty()) items.push_back(view);
  return tuple(items) + 'Q';
}

inline std::string tensor(const std::string& storage_code, std::int64_t offset, const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple({storage_code, integer(offset), sizes(shape), sizes(strides), "\x89", ordered_dict}) + 'R';
}

/// A whole pickle.
inline std::string whole(const std::string& code) { return proto() + code + '.'; }

}  // namespace pickle

struct ZipEntry {
  std::string name;
  std::string data;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  bool zip64 = false;        // sizes and offset in a zip64 extra field
  std::uint32_t crc = 0;     // 0: none
  std::string local_name{};  // in the local header, where it is another
};

/// The archive's records, to be joined; `directory` and what follows can be changed before.
struct ZipParts {
  std::string entries;
  std::string directory;
  std::uint64_t count = 0;

  std::string end(std::uint16_t comment_bytes = 0) const {
    const auto count16 = static_cast<std::uint16_t>(count);
    return "PK\5\6" + std::string(4, '\0') + raw(count16) + raw(count16) +
           raw(static_cast<std::uint32_t>(directory.size())) + raw(static_cast<std::uint32_t>(entries.size())) +
           raw(comment_bytes);
  }

  std::string join() const { return entries + directory + end(); }

  /// The same with a zip64 end record.
  std::string join64() const {
    const std::string end64 = "PK\6\6" + raw(std::uint64_t{44}) + std::string(4, '\0') + std::string(8, '\0') +
                              raw(count) + raw(count) + raw(std::uint64_t{directory.size()}) +
                              raw(std::uint64_t{entries.size()});
    const std::string locator =
        "PK\6\7" + std::string(4, '\0') + raw(std::uint64_t{entries.size() + directory.size()}) + raw(std::uint32_t{1});
    return entries + directory + end64 + locator + "PK\5\6" + std::string(4, '\0') + std::string(12, '\xff') +
           std::string(2, '\0');
  }
};

inline ZipParts zip_parts(const std::vector<ZipEntry>& entries) {
  ZipParts parts;
  for (const ZipEntry& entry : entries) {
    const auto name_bytes = static_cast<std::uint16_t>(entry.name.size());
    const auto size = static_cast<std::uint32_t>(entry.data.size());
    const auto offset = static_cast<std::uint32_t>(parts.entries.size());
    const std::uint32_t all_bits = 0xffffffff;
    std::string extra;
    if (entry.zip64) {
      extra = raw(std::uint16_t{0x7777}) + raw(std::uint16_t{3}) + "abc" + raw(std::uint16_t{1}) +
              raw(std::uint16_t{24}) + raw(std::uint64_t{size}) + raw(std::uint64_t{size}) + raw(std::uint64_t{offset});
    }
    const std::string sizes = entry.zip64 ? raw(all_bits) + raw(all_bits) : raw(size) + raw(size);
    parts.directory += "PK\1\2" + std::string(4, '\0') + raw(entry.flags) + raw(entry.method) + std::string(4, '\0') +
                       raw(entry.crc) + sizes + raw(name_bytes) + raw(static_cast<std::uint16_t>(extra.size())) +
                       std::string(2, '\0') + std::string(8, '\0') + raw(entry.zip64 ? all_bits : offset) + entry.name +
                       extra;
    // As torch.save does it: no sizes and no checksum here, an extra field of its own, data aligned.
    const std::string padding(7, 'Z');
    const std::string& local = entry.local_name.empty() ? entry.name : entry.local_name;
    parts.entries += "PK\3\4" + std::string(2, '\0') + raw(entry.flags) + raw(entry.method) + std::string(16, '\0') +
                     raw(static_cast<std::uint16_t>(local.size())) + raw(static_cast<std::uint16_t>(padding.size())) +
                     local + padding + entry.data;
    ++parts.count;
  }
  return parts;
}

inline std::string zip(const std::vector<ZipEntry>& entries) { return zip_parts(entries).join(); }

/// A .pth of that object and these storages.
inline std::string pth(const std::string& object, const std::vector<std::pair<std::string, std::string>>& storages) {
  std::vector<ZipEntry> entries = {{"net/data.pkl", pickle::whole(object)}};
  for (const auto& [key, data] : storages) entries.push_back({"net/data/" + key, data});
  return zip(entries);
}

/// The first three pickles of a legacy .pth.
inline std::string legacy_front(const std::string& version = "M\xe9\x03", const std::string& little_endian = "\x88") {
  using namespace pickle;
  return whole("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19") + whole(version) +
         whole(dict({{"protocol_version", version}, {"little_endian", little_endian}}));
}

/// A legacy .pth of that object; each storage with its count of elements.
inline std::string legacy_pth(const std::string& object,
                              const std::vector<std::pair<std::string, std::string>>& storages, std::int64_t numel) {
  std::string keys = "](";
  std::string data;
  for (const auto& [key, bytes] : storages) {
    keys += pickle::text(key);
    data += raw(numel) + bytes;
  }
  return legacy_front() + pickle::whole(object) + pickle::whole(keys + 'e') + data;
}

/// Opens `bytes` as a file called x.pth.
inline Weights open_pth(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "x.pth", bytes);
  return Weights::open(dir / "x.pth");
}

inline std::string floats(int count) {
  std::string data;
  for (int i = 0; i < count; ++i) data += raw(static_cast<float>(i));
  return data;
}

/// A file of one tensor "t" over a storage of six floats, 0 to 5.
inline std::string one_tensor(std::int64_t offset, const std::vector<std::int64_t>& shape,
                              const std::vector<std::int64_t>& strides) {
  return pth(pickle::dict({{"t", pickle::tensor(pickle::storage("0", 6), offset, shape, strides)}}),
             {{"0", floats(6)}});
}

inline const std::string good_tensor = pickle::tensor(pickle::storage("0", 6), 0, {2, 3}, {3, 1});
inline const std::string good_object = pickle::dict({{"t", good_tensor}});

}  // namespace lamina::test
