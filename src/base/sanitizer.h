/* TRI_ADDRESS_SANITIZER and TRI_THREAD_SANITIZER: 1 if the compiler adds that sanitizer, else 0. gcc and clang
 * have different macros for that. */
#ifndef TRI_BASE_SANITIZER_H
#define TRI_BASE_SANITIZER_H

#ifdef __has_feature
#define TRI_HAS_FEATURE(name) __has_feature(name)
#else
#define TRI_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TRI_HAS_FEATURE(address_sanitizer)
#define TRI_ADDRESS_SANITIZER 1
#else
#define TRI_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || TRI_HAS_FEATURE(thread_sanitizer)
#define TRI_THREAD_SANITIZER 1
#else
#define TRI_THREAD_SANITIZER 0
#endif

#endif
