# What makes a bug in Lamina harder to use; tests/install/hardening_test.sh reads it back out of the binaries.
option(LAMINA_HARDENED "Let the loader make tables of addresses read-only, and have code that reads files check itself" ON)

# Everywhere: nothing that the loader wrote can be written afterwards, and, on x86, an indirect jump lands where one may.
if(LAMINA_HARDENED)
  include(CheckCXXCompilerFlag)
  add_link_options(LINKER:-z,relro,-z,now)
  check_cxx_compiler_flag(-fcf-protection LAMINA_HAVE_CF_PROTECTION)
  if(LAMINA_HAVE_CF_PROTECTION)
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fcf-protection>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fcf-protection>")
  endif()
endif()

# lamina_hardened(TARGET): for rooms that read strangers' bytes: arrays on the stack, what is copied to where the compiler
# knows the size, and the standard library's indices are checked when it runs. Where an inline function of the standard
# library is not inlined, the linker keeps one, with those checks or without: libstdc++ has the same types and names for
# both. Of the 155 that g++ 12 has in these rooms kernels use none.
function(lamina_hardened target)
  if(NOT LAMINA_HARDENED OR CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # which checks more, and knows no *_chk functions
    return()
  endif()
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong;-U_FORTIFY_SOURCE;$<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>;-D_GLIBCXX_ASSERTIONS>")
endfunction()
