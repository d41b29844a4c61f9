#include "lamina/onnx/file/tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/names.h"
#include "lamina/files/stored_tensor.h"
#include "lamina/onnx/file/decode_tensor.h"
#include "lamina/ops/element_type.h"

namespace lamina::detail::onnx {
namespace {

namespace fs = std::filesystem;

// Tensors may share ranges of external data, and where these are misaligned each makes a copy. Copies together may be
// this many times the files or this many bytes, whichever is more.
constexpr std::uint64_t largest_growth = 4;
constexpr std::uint64_t always_allowed = std::uint64_t{64} << 20;

/// A whole number of decimal digits and nothing else.
std::optional<std::uint64_t> to_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Whether `path` is in `folder` or below; both canonical.
bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

/// A tensor's part of the model's file, whose memory is given back when the last view of it goes.
struct Tensors::Part {
  std::shared_ptr<const MappedFile> file;
  std::span<std::byte> bytes;

  ~Part() { file->forget(bytes); }
};

Tensors::Tensors(std::shared_ptr<const MappedFile> model)
    : model_(std::move(model)), folder_(fs::path(model_->path()).parent_path()), mapped_(model_->bytes().size()) {
  if (folder_.empty()) folder_ = ".";
}

void Tensors::refuse(const TensorProto& tensor, const std::string& why) const {
  fail(model_->path(), ": tensor ", quote(tensor.name), " cannot be used: ", why);
}

std::shared_ptr<const MappedFile> Tensors::map(const TensorProto& tensor) {
  const std::string& location = tensor.location;
  if (const auto known = locations_.find(location); known != locations_.end()) return known->second;
  if (model_->in_memory()) {
    refuse(tensor, concat("its data lie in another file, ", quote(location),
                          ", which is not known of a model in memory; load the model by its path"));
  }
  const fs::path relative(location);
  const bool up = std::ranges::any_of(relative, [](const fs::path& part) { return part == ".."; });
  if (location.empty() || relative.is_absolute() || up || location.find('\0') != std::string::npos) {
    refuse(tensor, concat("expected its external data in the model's folder, got ", quote(location)));
  }
  std::error_code error;
  const fs::path path = fs::canonical(folder_ / relative, error);
  if (error)
    refuse(tensor, concat("its external data ", quote(location), " cannot be read: ", words_of(error.value())));
  // A link may lead elsewhere in the folder, and to where the model itself lies if that is a link too: so Hugging
  // Face's cache keeps both.
  const fs::path folder = fs::canonical(folder_, error);
  const fs::path behind = error ? fs::path() : fs::canonical(model_->path(), error).parent_path();
  if (error) refuse(tensor, concat("the model's folder cannot be read: ", words_of(error.value())));
  if (!is_inside(path, folder) && !is_inside(path, behind)) {
    refuse(tensor, concat("its external data ", quote(location), " are a link that leaves the model's folder"));
  }
  std::shared_ptr<const MappedFile>& file = files_[path];
  if (file == nullptr) {
    file = MappedFile::open(path);
    mapped_ += file->bytes().size();
  }
  return locations_[location] = file;
}

Tensors::External Tensors::external(const TensorProto& tensor, std::uint64_t bytes) {
  const auto offset = tensor.offset.empty() ? 0 : to_number(tensor.offset);
  const auto length = tensor.length.empty() ? bytes : to_number(tensor.length);
  if (!offset || !length) {
    refuse(tensor, concat("expected offset and length of its external data in digits, got ", quote(tensor.offset),
                          " and ", quote(tensor.length)));
  }
  if (*length != bytes)
    refuse(tensor, concat("expected ", bytes, " bytes of external data, got a length of ", *length));
  const std::shared_ptr<const MappedFile> file = map(tensor);
  const std::span<std::byte> all = file->bytes();
  if (*offset > all.size() || bytes > all.size() - *offset) {
    refuse(tensor, concat("expected ", bytes, " bytes at offset ", *offset, " of ", quote(tensor.location),
                          ", which has ", all.size()));
  }
  return {file, all.subspan(*offset, bytes)};
}

/// What a view keeps alive: the file, and of the model's own, to which only this tensor points, its part.
std::shared_ptr<void> Tensors::owner(const External& source, bool external) {
  if (external) return std::const_pointer_cast<MappedFile>(source.file);
  std::weak_ptr<Part>& known = parts_[source.bytes.data()];
  std::shared_ptr<Part> part = known.lock();
  if (part == nullptr) known = part = std::shared_ptr<Part>(new Part{source.file, source.bytes});
  return part;
}

Tensor Tensors::read(const TensorProto& tensor) {
  const ElementType* type = find_element_type(tensor.data_type);
  if (type == nullptr || !type->dtype) {
    fail(ErrorKind::unsupported, model_->path(), ": tensor ", quote(tensor.name), ": Lamina has no element type ",
         element_type_name(tensor.data_type));
  }
  if (tensor.segment) refuse(tensor, "it is a segment of a tensor");
  if (tensor.dims.size() > Shape::max_rank) {
    refuse(tensor, concat("expected at most ", Shape::max_rank, " dimensions, got ", tensor.dims.size(), ' ',
                          shape_text(tensor.dims)));
  }
  const DType dtype = *type->dtype;
  const std::size_t element = size_of(dtype);
  const auto bytes = checked_mul(checked_numel(tensor.dims).value_or(0), std::uint64_t{element});
  if (!bytes) refuse(tensor, concat("the extents ", shape_text(tensor.dims), " overflow 64 bits"));
  const Shape shape{std::span<const std::int64_t>(tensor.dims)};
  if (*bytes == 0) return Tensor(shape, dtype);

  External source{model_, tensor.raw};
  if (tensor.external) source = external(tensor, *bytes);
  const bool typed = !tensor.external && tensor.data_field != raw_data;
  // A C++ bool may only be 0 or 1; a file's may be any byte.
  const bool valid =
      dtype != DType::boolean || std::ranges::all_of(source.bytes, [](std::byte b) { return b <= std::byte{1}; });
  const bool aligned = reinterpret_cast<std::uintptr_t>(source.bytes.data()) % element == 0;
  if (!typed && valid && aligned) {
    return Tensor::borrow(source.bytes.data(), shape, dtype, Device::cpu(), owner(source, tensor.external));
  }

  copied_ += *bytes;
  if (!typed && copied_ / largest_growth > mapped_ && copied_ > always_allowed) {
    refuse(tensor, concat("the tensors up to it repeat elements to ", copied_, " bytes, more than ", largest_growth,
                          " times the files' ", mapped_));
  }
  Tensor copy(shape, dtype);
  const auto out = std::span(static_cast<std::byte*>(copy.raw()), static_cast<std::size_t>(*bytes));
  if (typed) {
    decode_elements(tensor, out, model_->path());
  } else {
    std::memcpy(out.data(), source.bytes.data(), out.size());
    // Others may look at the same external data; into the model's own file nothing else points.
    if (!tensor.external) source.file->forget(source.bytes);
  }
  if (dtype == DType::boolean) {
    for (std::byte& b : out) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return copy;
}

}  // namespace lamina::detail::onnx
