#include <exception>
#include <new>

#include "lamina/base/names.h"
#include "lamina/c/handles.h"

namespace lamina::c {
namespace {

constexpr std::pair<std::string_view, std::string_view> own_words[] = {
    {"CompileOptions::capacity", "lamina_compile_options.capacities"},
    {"CompileOptions::", "lamina_compile_options."},
    {"OpenOptions::key", "lamina convert --key"},
    {"OpenOptions::strip_prefix", "lamina convert --strip-prefix"},
    {"lamina.preprocess: ", "preprocess: "},
    {"expected run, got run_into", "expected lamina_plan_run, got lamina_plan_run_into"},
    {"set Model::preprocess, to torchvision_imagenet() for", "lamina_model_set_preprocess does, with \"imagenet\" for"},
    {"lamina::class_scores", "lamina_model_top_classes"}};

thread_local std::string last_error;       // what a long message allocates goes with its thread
thread_local const char* last_words = "";  // last_error, or a text that needs no memory

lamina_status failed(lamina_status status, const char* words, bool keep) noexcept {
  last_words = words;
  if (!keep) return status;
  try {
    last_error = detail::in_words(words, own_words);
    last_words = last_error.c_str();
  } catch (...) {
    last_words = "there was no memory left to say what went wrong";
  }
  return status;
}

}  // namespace

lamina_status guarded(void (*work)(void* context), void* context) noexcept {
  try {
    work(context);
    return LAMINA_OK;
  } catch (const std::bad_alloc&) {
    return failed(LAMINA_OUT_OF_MEMORY, "out of memory", false);
  } catch (const Error& error) {
    return failed(static_cast<lamina_status>(error.kind()), error.what(), true);
  } catch (const std::exception& error) {
    return failed(LAMINA_FAILED, error.what(), true);
  } catch (...) {
    return failed(LAMINA_FAILED, "an exception that is none of Lamina's", false);
  }
}

void require(const void* pointer, std::string_view argument) {
  if (pointer == nullptr) detail::fail(argument, ": expected a pointer, got NULL");
}

}  // namespace lamina::c

int32_t lamina_c_version(void) { return LAMINA_C_VERSION; }
const char* lamina_version(void) { return lamina::version().data(); }
const char* lamina_last_error(void) { return lamina::c::last_words; }
