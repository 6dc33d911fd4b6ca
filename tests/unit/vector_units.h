/* Declares a test for each vector unit that the CPU device is compiled for. */
#ifndef TRI_TESTS_VECTOR_UNITS_H
#define TRI_TESTS_VECTOR_UNITS_H

#define VECTOR_UNIT_TEST_(unit, function)                                                                              \
  static void test_##unit(void **state) {                                                                              \
    (void)state;                                                                                                       \
    function("cpu:" #unit);                                                                                            \
  }

/* Defines test_baseline, ...: each calls the function with its device's name. */
#define VECTOR_UNIT_TESTS(function)                                                                                    \
  VECTOR_UNIT_TEST_(baseline, function)                                                                                \
  VECTOR_UNIT_TEST_(avx2, function)                                                                                    \
  VECTOR_UNIT_TEST_(avx512, function)                                                                                  \
  VECTOR_UNIT_TEST_(avx512bf16, function)

/* The entries of these tests for a test program's list. */
#define VECTOR_UNIT_ENTRIES                                                                                            \
  cmocka_unit_test(test_baseline), cmocka_unit_test(test_avx2), cmocka_unit_test(test_avx512),                         \
      cmocka_unit_test(test_avx512bf16)

#endif
