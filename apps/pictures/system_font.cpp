#include "pictures/system_font.h"

#include <dlfcn.h>

#include "lamina/base/error.h"

// fontconfig is looked for when the first letter asks for it, so that the same program runs without. What follows is
// the part of its interface that is needed, as fontconfig/fontconfig.h has it since version 2.12.
namespace lamina::app {
namespace {

/// One of its functions, by its name. Throws Error where there is none.
template <class Function>
Function* fc(const char* name) {
  static void* const library = ::dlopen("libfontconfig.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : ::dlsym(library, name);
  if (found == nullptr) detail::fail(name, ": there is no fontconfig");
  return reinterpret_cast<Function*>(found);
}

/// The best match for a font with outlines that has the letter; null if there is none.
void* match(char32_t letter) {
  static const bool begun = fc<int()>("FcInit")() != 0;
  if (!begun) return nullptr;
  void* const letters = fc<void*()>("FcCharSetCreate")();
  void* const wanted = fc<void*()>("FcPatternCreate")();
  fc<int(void*, unsigned)>("FcCharSetAddChar")(letters, letter);
  fc<int(void*, const char*, const void*)>("FcPatternAddCharSet")(wanted, "charset", letters);
  const auto add_bool = fc<int(void*, const char*, int)>("FcPatternAddBool");
  add_bool(wanted, "scalable", 1);
  add_bool(wanted, "color", 0);  // emoji as pictures have no outlines
  fc<int(void*, void*, int)>("FcConfigSubstitute")(nullptr, wanted, 0);
  fc<void(void*)>("FcDefaultSubstitute")(wanted);
  int result = 0;
  void* const found = fc<void*(void*, void*, int*)>("FcFontMatch")(nullptr, wanted, &result);
  fc<void(void*)>("FcPatternDestroy")(wanted);
  fc<void(void*)>("FcCharSetDestroy")(letters);
  return found;
}

}  // namespace

std::optional<FontFile> system_font(char32_t letter) try {
  void* const found = match(letter);
  if (found == nullptr) return std::nullopt;
  FontFile font;
  unsigned char* path = nullptr;
  const auto text = fc<int(const void*, const char*, int, unsigned char**)>("FcPatternGetString");
  if (text(found, "file", 0, &path) == 0) font.path = reinterpret_cast<const char*>(path);
  fc<int(const void*, const char*, int, int*)>("FcPatternGetInteger")(found, "index", 0, &font.index);
  fc<void(void*)>("FcPatternDestroy")(found);
  font.index &= 0xffff;  // above it fontconfig notes the instance of a variable font
  if (!font.path.starts_with("/usr/")) return std::nullopt;
  return font;
} catch (const Error&) {  // there is no fontconfig, or an older one
  return std::nullopt;
}

}  // namespace lamina::app
