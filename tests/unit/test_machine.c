/* Machines and launchers of other kinds, replayed from small trees of files. */
#include "files/file.h"
#include "files/machine.h"
#include "launch/launcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define assert_ok(call)                                                                                                \
  do {                                                                                                                 \
    if ((call) != TRI_OK) fail_msg("%s: %s", #call, tri_status_message());                                             \
  } while (0)

static int make_root(void **state) {
  *state = strdup("/tmp/tri_machine_XXXXXX");
  return *state != NULL && mkdtemp(*state) != NULL ? 0 : -1;
}

static int remove_root(void **state) {
  tri_status status = tri_directory_remove(*state);
  free(*state);
  return status == TRI_OK ? 0 : -1;
}

static void put(const char *root, const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s%s", root, path);
  char *slash = strrchr(full, '/');
  *slash = '\0';
  assert_ok(tri_directory_create(full));
  *slash = '/';
  assert_ok(tri_file_replace(full, text, strlen(text)));
}

static void write_basics(const char *root) {
  put(root, "/proc/cpuinfo",
      "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9554\n"
      "flags\t\t: fpu fma avx avx2 avx512f avx512dq avx512bw avx512vl avx512_bf16\n\n"
      "processor\t: 1\nmodel name\t: other\n");
  put(root, "/proc/meminfo", "MemTotal:       16384 kB\nHugePages_Total:       3\nHugepagesize:       2048 kB\n");
}

static void test_server_under_cgroup_v2(void **state) {
  const char *root = *state;
  write_basics(root);
  put(root, "/sys/devices/system/cpu/online", "0-127\n");
  put(root, "/sys/devices/system/node/has_memory", "0-3\n");
  put(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  put(root, "/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8,16-17\n");
  put(root, "/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  put(root, "/sys/fs/cgroup/slurm/job_7/cpu.max", "250000 100000\n");
  put(root, "/sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "max 100000\n");
  put(root, "/sys/fs/cgroup/slurm/memory.max", "8388608\n");
  put(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  tri_machine m;
  assert_ok(tri_machine_read(root, &m));
  assert_string_equal(m.processor, "AMD EPYC 9554");
  assert_string_equal(tri_machine_vector_unit(&m), "AVX-512 with bf16");
  assert_int_equal(m.cores_online, 128);
  assert_int_equal(m.cores_allowed, 7);
  assert_true(m.cores_quota == 2.5);
  assert_int_equal(tri_machine_usable_cores(&m), 2);
  assert_int_equal(m.numa_nodes, 4);
  assert_int_equal(m.memory_bytes, 16384 * 1024);
  assert_int_equal(m.memory_limit_bytes, 8388608);
  assert_int_equal(m.huge_pages, 3);
  assert_int_equal(m.huge_page_bytes, 2048 * 1024);
  assert_string_equal(m.transparent_huge_pages, "never");
}

/* A container: /proc/self/cgroup names the host's path, the files are those of the container's root. */
static void test_container_under_cgroup_v1(void **state) {
  const char *root = *state;
  write_basics(root);
  put(root, "/sys/devices/system/cpu/online", "0-1\n");
  put(root, "/proc/self/status", "Cpus_allowed_list:\t0-1\n");
  put(root, "/proc/self/cgroup", "5:cpuacct,cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n");
  put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  put(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n");
  tri_machine m;
  assert_ok(tri_machine_read(root, &m));
  assert_true(m.cores_quota == 0.5);
  assert_int_equal(tri_machine_usable_cores(&m), 1);
  assert_int_equal(m.memory_limit_bytes, 4194304);
}

static void test_no_limits(void **state) {
  const char *root = *state;
  write_basics(root);
  put(root, "/proc/self/cgroup", "4:memory:/\n1:cpu:/\n");
  put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tri_machine m;
  assert_ok(tri_machine_read(root, &m));
  assert_true(m.cores_quota == 0 && m.memory_limit_bytes == 0);
  assert_int_equal(m.numa_nodes, 1);
  assert_int_equal(tri_machine_usable_cores(&m), 1);
  assert_string_equal(m.transparent_huge_pages, "");
}

static void test_vector_units(void **state) {
  static const struct {
    const char *cpuinfo, *expected;
  } cases[] = {
      {"flags : sse2\n", "none beyond the baseline"},
      {"flags : avx2\n", "none beyond the baseline"}, /* no fma */
      {"flags : avx2 fma avx512f\n", "AVX2"},         /* avx512 without all required extensions */
      {"flags : fma avx2 avx512f avx512bw avx512vl avx512dq\n", "AVX-512"},
      {"flags : fma avx2 avx512f avx512bw avx512vl avx512dq avx512_bf16 amx_bf16\n", "AVX-512 and AMX, with bf16"},
      {"Features : fp asimd evtstrm\nCPU part : 0xd0c\n", "NEON"},
      {"Features : asimd sve bf16\n", "SVE with bf16"},
      {"nothing we know\n", "none beyond the baseline"},
  };
  const char *root = *state;
  write_basics(root);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    put(root, "/proc/cpuinfo", cases[i].cpuinfo);
    tri_machine m;
    assert_ok(tri_machine_read(root, &m));
    assert_string_equal(tri_machine_vector_unit(&m), cases[i].expected);
    if (strstr(cases[i].cpuinfo, "CPU part") != NULL) assert_string_equal(m.processor, "arm64, part 0xd0c");
  }
}

static void test_no_proc(void **state) {
  tri_machine m;
  assert_int_equal(tri_machine_read(*state, &m), TRI_BAD_FILE);
  assert_non_null(strstr(tri_status_message(), "/proc/cpuinfo"));
}

static void test_this_machine(void **state) {
  (void)state;
  tri_machine m;
  assert_ok(tri_machine_read("/", &m));
  assert_true(m.memory_bytes > 1 << 20);
  assert_true(tri_machine_usable_cores(&m) >= 1);
}

/* ---- launchers --------------------------------------------------------------------------------------------------- */

static void write_launcher(const char *root, const char *path, const char *says) {
  char script[1024], full[512];
  snprintf(script, sizeof script, "#!/bin/sh\ncat <<'END'\n%s\nEND\n", says);
  put(root, path, script);
  snprintf(full, sizeof full, "%s%s", root, path);
  chmod(full, 0755);
}

static void test_launchers_say_who_they_are(void **state) {
  static const struct {
    const char *says, *implementation, *version;
  } cases[] = {
      {"mpiexec (OpenRTE) 4.1.4\n\nReport bugs to", "Open MPI", "4.1.4"},
      {"mpirun (Open MPI) 5.0.0rc12", "Open MPI", "5.0.0rc12"},
      {"HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: x", "MPICH",
       "4.0.2"},
      {"Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307", "Intel MPI", "2021.9"},
      {"hello", "unknown", ""},
      {"", "unknown", ""},
  };
  const char *root = *state;
  char search[512];
  snprintf(search, sizeof search, "/proc/none:%s/empty::%s/bin", root, root);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_launcher(root, "/bin/mpiexec", cases[i].says);
    tri_launcher launcher;
    assert_ok(tri_launcher_find(search, NULL, &launcher));
    assert_string_equal(launcher.implementation, cases[i].implementation);
    assert_string_equal(launcher.version, cases[i].version);
    assert_non_null(strstr(launcher.path, "/bin/mpiexec"));
  }
}

static void test_the_first_in_the_path_wins(void **state) {
  const char *root = *state;
  char search[512];
  write_launcher(root, "/a/mpirun", "mpirun (Open MPI) 1.0");
  write_launcher(root, "/b/mpiexec", "mpiexec (OpenRTE) 2.0");
  put(root, "/a/mpiexec", "not executable");
  snprintf(search, sizeof search, "%s/a:%s/b", root, root);
  tri_launcher launcher;
  assert_ok(tri_launcher_find(search, NULL, &launcher));
  assert_string_equal(launcher.version, "2.0"); /* mpiexec before mpirun, and only executable files */
  snprintf(search, sizeof search, "%s/a", root);
  assert_ok(tri_launcher_find(search, NULL, &launcher));
  assert_string_equal(launcher.version, "1.0");
}

/* A machine with both: the one of the MPI that the program was built with is used. */
static void test_the_right_language_wins(void **state) {
  const char *root = *state;
  char search[512];
  tri_launcher launcher;
  write_launcher(root, "/both/mpiexec", "mpiexec (OpenRTE) 4.1.4");
  write_launcher(root, "/both/mpiexec.mpich", "HYDRA build details:\n    Version: 4.0.2\n");
  snprintf(search, sizeof search, "%s/both", root);
  assert_ok(tri_launcher_find(search, "MPICH 4.0.2", &launcher));
  assert_string_equal(launcher.implementation, "MPICH");
  assert_true(tri_launcher_speaks(&launcher, "Cray MPICH 8.1") && !tri_launcher_speaks(&launcher, "Open MPI 4.1.4"));
  assert_ok(tri_launcher_find(search, "Open MPI 4.1.4", &launcher));
  assert_string_equal(launcher.implementation, "Open MPI");
  write_launcher(root, "/one/mpiexec", "mpiexec (OpenRTE) 4.1.4");
  snprintf(search, sizeof search, "%s/one", root);
  assert_ok(tri_launcher_find(search, "MPICH 4.0.2", &launcher)); /* the only one */
  assert_false(tri_launcher_speaks(&launcher, "MPICH 4.0.2"));
}

static void test_no_launcher(void **state) {
  tri_launcher launcher;
  assert_int_equal(tri_launcher_find(*state, NULL, &launcher), TRI_UNSUPPORTED);
  assert_non_null(strstr(tri_status_message(), "cannot find mpiexec in the PATH; install Open MPI or MPICH"));
  assert_int_equal(tri_launcher_find("", NULL, &launcher), TRI_UNSUPPORTED);
}

int main(void) {
#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
  const struct CMUnitTest tests[] = {
      IN_ROOT(test_server_under_cgroup_v2),
      IN_ROOT(test_container_under_cgroup_v1),
      IN_ROOT(test_no_limits),
      IN_ROOT(test_vector_units),
      IN_ROOT(test_no_proc),
      cmocka_unit_test(test_this_machine),
      IN_ROOT(test_launchers_say_who_they_are),
      IN_ROOT(test_the_first_in_the_path_wins),
      IN_ROOT(test_the_right_language_wins),
      IN_ROOT(test_no_launcher),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
