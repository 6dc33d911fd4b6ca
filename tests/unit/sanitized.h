/* Whether a sanitizer is at work. A test takes ten times as long then, and wants to go every way, not every size: those
 * of a thousand cases of one kind take a part of them. */
#ifndef TRI_TESTS_UNIT_SANITIZED_H
#define TRI_TESTS_UNIT_SANITIZED_H

#ifdef __has_feature /* clang's word for it; gcc defines the others */
#define SANITIZED_FEATURE(name) __has_feature(name)
#else
#define SANITIZED_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SANITIZED_FEATURE(address_sanitizer) ||           \
    SANITIZED_FEATURE(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#endif
