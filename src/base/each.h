/* Lists of macros' arguments.
 *
 * TRI_EACH(f, a, b, c) is f(a) f(b) f(c), for up to 20 arguments.
 *
 * A pair is `(type) name`, the form of a parameter in a list of functions. TRI_PAIR_DECLARED makes `type name` from it,
 * TRI_PAIR_TYPE `type` and TRI_PAIR_NAME `name`. */
#ifndef TRI_BASE_EACH_H
#define TRI_BASE_EACH_H

#define TRI_PAIR_DECLARED(pair) TRI_KEEP_TYPE_ pair
#define TRI_PAIR_NAME(pair) TRI_DROP_TYPE_ pair
#define TRI_PAIR_TYPE(pair) TRI_FIRST_(TRI_TYPE_AND_ pair)
#define TRI_KEEP_TYPE_(...) __VA_ARGS__
#define TRI_DROP_TYPE_(...)
#define TRI_TYPE_AND_(...) __VA_ARGS__,
#define TRI_FIRST_(...) TRI_FIRST_OF_(__VA_ARGS__)
#define TRI_FIRST_OF_(first, ...) first

#define TRI_EACH_1_(f, a) f(a)
#define TRI_EACH_2_(f, a, ...) f(a) TRI_EACH_1_(f, __VA_ARGS__)
#define TRI_EACH_3_(f, a, ...) f(a) TRI_EACH_2_(f, __VA_ARGS__)
#define TRI_EACH_4_(f, a, ...) f(a) TRI_EACH_3_(f, __VA_ARGS__)
#define TRI_EACH_5_(f, a, ...) f(a) TRI_EACH_4_(f, __VA_ARGS__)
#define TRI_EACH_6_(f, a, ...) f(a) TRI_EACH_5_(f, __VA_ARGS__)
#define TRI_EACH_7_(f, a, ...) f(a) TRI_EACH_6_(f, __VA_ARGS__)
#define TRI_EACH_8_(f, a, ...) f(a) TRI_EACH_7_(f, __VA_ARGS__)
#define TRI_EACH_9_(f, a, ...) f(a) TRI_EACH_8_(f, __VA_ARGS__)
#define TRI_EACH_10_(f, a, ...) f(a) TRI_EACH_9_(f, __VA_ARGS__)
#define TRI_EACH_11_(f, a, ...) f(a) TRI_EACH_10_(f, __VA_ARGS__)
#define TRI_EACH_12_(f, a, ...) f(a) TRI_EACH_11_(f, __VA_ARGS__)
#define TRI_EACH_13_(f, a, ...) f(a) TRI_EACH_12_(f, __VA_ARGS__)
#define TRI_EACH_14_(f, a, ...) f(a) TRI_EACH_13_(f, __VA_ARGS__)
#define TRI_EACH_15_(f, a, ...) f(a) TRI_EACH_14_(f, __VA_ARGS__)
#define TRI_EACH_16_(f, a, ...) f(a) TRI_EACH_15_(f, __VA_ARGS__)
#define TRI_EACH_17_(f, a, ...) f(a) TRI_EACH_16_(f, __VA_ARGS__)
#define TRI_EACH_18_(f, a, ...) f(a) TRI_EACH_17_(f, __VA_ARGS__)
#define TRI_EACH_19_(f, a, ...) f(a) TRI_EACH_18_(f, __VA_ARGS__)
#define TRI_EACH_20_(f, a, ...) f(a) TRI_EACH_19_(f, __VA_ARGS__)
#define TRI_EACH_OF_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, each,  \
                     ...)                                                                                              \
  each
#define TRI_EACH(f, ...)                                                                                               \
  TRI_EACH_OF_(__VA_ARGS__, TRI_EACH_20_, TRI_EACH_19_, TRI_EACH_18_, TRI_EACH_17_, TRI_EACH_16_, TRI_EACH_15_,        \
               TRI_EACH_14_, TRI_EACH_13_, TRI_EACH_12_, TRI_EACH_11_, TRI_EACH_10_, TRI_EACH_9_, TRI_EACH_8_,         \
               TRI_EACH_7_, TRI_EACH_6_, TRI_EACH_5_, TRI_EACH_4_, TRI_EACH_3_, TRI_EACH_2_, TRI_EACH_1_, unused)      \
  (f, __VA_ARGS__)

#endif
