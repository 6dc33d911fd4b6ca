/* The checks of `trireme doctor`: the machine, the software, the device and the GPUs. */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "base/format.h"
#include "base/system.h"
#include "cli/running/doctor.h"
#include "comm/comm.h"
#include "device/device.h"
#include "device/gpu/inquiry.h"
#include "device/libraries.h"
#include "engine/peak.h"
#include "files/cache_folder.h"
#include "files/file.h"
#include "launch/launcher.h"
#include "train/best_peak.h"

#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <pcre2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <yaml.h>
#include <zstd.h>

/* ---- findings ---------------------------------------------------------------------------------------------------- */

tri_finding *tri_doctor_find(tri_doctor *doctor, const char *name) {
  tri_finding *finding = &doctor->findings[doctor->count++];
  *finding = (tri_finding){.mark = TRI_MARK_OK, .facts = json_object()};
  snprintf(finding->name, sizeof finding->name, "%s", name);
  return finding;
}

void tri_finding_value(tri_finding *finding, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding->value, sizeof finding->value, format, arguments);
  va_end(arguments);
}

void tri_finding_advise(tri_finding *finding, tri_mark mark, const char *format, ...) {
  finding->mark = mark;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding->advice, sizeof finding->advice, format, arguments);
  va_end(arguments);
}

static void add_number(tri_finding *finding, const char *key, double number) {
  json_object_set_new(finding->facts, key, json_real(number));
}

static void add_count(tri_finding *finding, const char *key, int64_t count) {
  json_object_set_new(finding->facts, key, json_integer(count));
}

static void add_text(tri_finding *finding, const char *key, const char *text) {
  json_object_set_new(finding->facts, key, json_string(text));
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

void tri_doctor_check_processor(tri_doctor *doctor) {
  const tri_machine *m = &doctor->machine;
  tri_finding *processor = tri_doctor_find(doctor, "processor");
  tri_finding_value(processor, "%s", m->processor[0] != '\0' ? m->processor : "of unknown make");
  add_text(processor, "model", m->processor);

  tri_finding *units = tri_doctor_find(doctor, "vector units");
  tri_finding_value(units, "%s", tri_machine_vector_unit(m));
  add_text(units, "best", tri_machine_vector_unit(m));
  if (!m->avx2 && !m->avx512 && !m->neon) {
    tri_finding_advise(units, TRI_MARK_WARNING,
                       "training works and is slow; use a processor with AVX2 or newer, and in a "
                       "virtual machine pass the host's processor through");
  }
}

void tri_doctor_check_cores(tri_doctor *doctor) {
  const tri_machine *m = &doctor->machine;
  tri_finding *cores = tri_doctor_find(doctor, "cores");
  char quota[64] = "";
  if (m->cores_quota > 0)
    snprintf(quota, sizeof quota, ", and its control group gives it the time of %.3g", m->cores_quota);
  tri_finding_value(cores, "%lld online, this process may use %lld%s", (long long)m->cores_online,
                    (long long)m->cores_allowed, quota);
  add_count(cores, "online", m->cores_online);
  add_count(cores, "allowed", m->cores_allowed);
  add_number(cores, "quota", m->cores_quota);
  add_count(cores, "usable", tri_machine_usable_cores(m));
  if (m->cores_quota > 0 && m->cores_quota < (double)m->cores_allowed) {
    tri_finding_advise(cores, TRI_MARK_WARNING,
                       "set `threads: %lld` in the run file: more threads than the control group "
                       "has time for stall each other",
                       (long long)tri_machine_usable_cores(m));
  } else if (m->cores_allowed < m->cores_online) {
    tri_finding_advise(cores, TRI_MARK_WARNING,
                       "if that is not meant: Open MPI binds each rank to one core unless it is "
                       "given --bind-to none, and taskset or Slurm may have bound it too");
  }

  tri_finding *numa = tri_doctor_find(doctor, "NUMA nodes");
  tri_finding_value(numa, "%lld", (long long)m->numa_nodes);
  add_count(numa, "nodes", m->numa_nodes);
  if (m->numa_nodes > 1) {
    tri_finding_advise(numa, TRI_MARK_OK, "one rank on each node (-n %lld) keeps memory near its cores",
                       (long long)m->numa_nodes);
  }
}

static void check_huge_pages(tri_doctor *doctor) {
  const tri_machine *m = &doctor->machine;
  tri_finding *pages = tri_doctor_find(doctor, "huge pages");
  const char *mode = m->transparent_huge_pages;
  tri_finding_value(pages, "transparent: %s, set aside: %lld", mode[0] != '\0' ? mode : "unknown",
                    (long long)m->huge_pages);
  add_text(pages, "transparent", mode);
  add_count(pages, "set_aside", m->huge_pages);
  if (strcmp(mode, "never") == 0) {
    tri_finding_advise(pages, TRI_MARK_WARNING,
                       "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; large "
                       "memory in small pages costs some per cent of speed");
  }
}

void tri_doctor_check_memory(tri_doctor *doctor) {
  const tri_machine *m = &doctor->machine;
  enum { FEW_BYTES = 1 << 30 };
  tri_finding *memory = tri_doctor_find(doctor, "memory");
  size_t available = tri_system_memory_available();
  char total[32], free_now[32], limit[32], limited[80] = "";
  if (m->memory_limit_bytes > 0 && m->memory_limit_bytes < m->memory_bytes) {
    snprintf(limited, sizeof limited, ", limited to %s by the control group",
             tri_format_bytes((double)m->memory_limit_bytes, limit, sizeof limit));
  }
  tri_finding_value(memory, "%s%s, %s available now", tri_format_bytes((double)m->memory_bytes, total, sizeof total),
                    limited, tri_format_bytes((double)available, free_now, sizeof free_now));
  add_count(memory, "total_bytes", m->memory_bytes);
  add_count(memory, "limit_bytes", m->memory_limit_bytes);
  add_count(memory, "available_bytes", (int64_t)available);
  if (available < FEW_BYTES) {
    tri_finding_advise(memory, TRI_MARK_WARNING,
                       "close what else runs, or raise the limit: a model of 124M parameters "
                       "trains in some 3 GiB");
  }
  check_huge_pages(doctor);
}

void tri_doctor_check_threads(tri_doctor *doctor) {
  tri_finding *threads = tri_doctor_find(doctor, "OpenMP");
  const char *asked = getenv("OMP_NUM_THREADS");
  int64_t usable = tri_machine_usable_cores(&doctor->machine);
  int most = omp_get_max_threads();
  tri_finding_value(threads, "%d thread%s%s%s", most, TRI_PLURAL(most), asked != NULL ? ", by OMP_NUM_THREADS=" : "",
                    asked != NULL ? asked : "");
  add_count(threads, "threads", most);
  if (most > usable) {
    tri_finding_advise(threads, TRI_MARK_WARNING,
                       "set `threads: %lld` in the run file, or OMP_NUM_THREADS; no more cores are available",
                       (long long)usable);
  } else if (most < usable && asked != NULL) {
    tri_finding_advise(threads, TRI_MARK_WARNING,
                       "unset OMP_NUM_THREADS unless the other %lld cores are for other programs",
                       (long long)(usable - most));
  }
}

void tri_doctor_check_disk(tri_doctor *doctor) {
  const double few_bytes = 5.0 * (1 << 30);
  tri_finding *disk = tri_doctor_find(doctor, "disk");
  char folder[TRI_PATH_BYTES], room[32];
  struct statvfs facts;
  if (getcwd(folder, sizeof folder) == NULL) snprintf(folder, sizeof folder, ".");
  if (statvfs(".", &facts) != 0) {
    tri_finding_value(disk, "cannot read the working folder");
    tri_finding_advise(disk, TRI_MARK_WARNING, "go to a folder that exists and may be written");
    return;
  }
  double bytes = (double)facts.f_bavail * (double)facts.f_frsize;
  tri_finding_value(disk, "%s free in %.200s", tri_format_bytes(bytes, room, sizeof room), folder);
  add_text(disk, "folder", folder);
  add_number(disk, "free_bytes", bytes);
  if (access(".", W_OK) != 0) {
    tri_finding_advise(disk, TRI_MARK_WARNING, "this folder may not be written; give runs an `output:` elsewhere");
  } else if (bytes < few_bytes) {
    tri_finding_advise(disk, TRI_MARK_WARNING,
                       "make room, or keep fewer checkpoints (`checkpoint.keep`): each takes 12 "
                       "bytes a parameter, 1.4 GiB for 124M");
  }
}

/* ---- software ---------------------------------------------------------------------------------------------------- */

void tri_doctor_check_launcher(tri_doctor *doctor) {
  tri_finding *mpi = tri_doctor_find(doctor, "MPI");
  tri_launcher launcher;
  const char *path = getenv("PATH");
  if (tri_launcher_find(path != NULL ? path : "", tri_comm_library(), &launcher) != TRI_OK) {
    tri_finding_value(mpi, "not found; training on one rank needs none");
    tri_finding_advise(mpi, TRI_MARK_MISSING, "%s", tri_status_message());
    return;
  }
  tri_finding_value(mpi, "%s %s, %.200s; built with %s", launcher.implementation, launcher.version, launcher.path,
                    tri_comm_library());
  if (!tri_launcher_speaks(&launcher, tri_comm_library())) {
    tri_finding_advise(mpi, TRI_MARK_WARNING,
                       "-n cannot start ranks: put the mpiexec of %s into the PATH, or build with this MPI (cmake "
                       "-DTRIREME_MPI=openmpi or mpich)",
                       tri_comm_library());
  }
  add_text(mpi, "library", tri_comm_library());
  add_text(mpi, "implementation", launcher.implementation);
  add_text(mpi, "version", launcher.version);
  add_text(mpi, "launcher", launcher.path);
}

static void found_library(tri_doctor *doctor, const char *name, const char *version) {
  tri_finding *library = tri_doctor_find(doctor, name);
  tri_finding_value(library, "%s", version);
  add_text(library, "version", version);
}

void tri_doctor_check_libraries(tri_doctor *doctor) {
  char version[64] = "";
  found_library(doctor, "oneDNN", tri_device_onednn_version(version, sizeof version));
  found_library(doctor, "zstd", ZSTD_versionString());
  found_library(doctor, "jansson", jansson_version_str());
  found_library(doctor, "libyaml", yaml_get_version_string());
  pcre2_config(PCRE2_CONFIG_VERSION, version); /* such as "10.42 2022-12-11"; at most 24 bytes */
  version[strcspn(version, " ")] = '\0';
  found_library(doctor, "PCRE2", version);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* Returns the highest peak, in FLOP/s, that was ever measured on this device for a type. The current measurement may be
 * lower because other programs are running. Stores `measured` if it is the highest. `train` uses the same store. */
static double best_peak(const tri_device *device, tri_dtype type, double measured) {
  char folder[TRI_PATH_BYTES], key[TRI_PEAK_KEY_BYTES];
  if (!tri_cache_folder(folder)) return measured;
  tri_best_peak_key(device, type, false, key);
  const double kept = tri_best_peak_read(folder, key);
  if (measured > kept) (void)tri_best_peak_write(folder, key, measured);
  return measured > kept ? measured : kept;
}

static void check_product(tri_doctor *doctor, tri_device *device, tri_dtype type, double seconds, const char *name) {
  tri_finding *product = tri_doctor_find(doctor, name);
  double peak = 0, rate = 0;
  tri_status status = tri_device_supports(device, type);
  if (status == TRI_OK) status = tri_peak_flops(device, type, INFINITY, &peak);
  if (status == TRI_OK) status = tri_matmul_flops(device, type, seconds, &rate);
  if (status != TRI_OK) {
    tri_finding_value(product, "does not work on %s", device->info.name);
    tri_finding_advise(product, TRI_MARK_WARNING, "%s", tri_status_message());
    return;
  }
  const double now = rate > peak ? rate : peak;
  peak = best_peak(device, type, now);
  char before[48] = "";
  if (peak > now) snprintf(before, sizeof before, " measured before (now %.1f)", now / 1e9);
  tri_finding_value(product, "%.1f GFLOP/s, %.0f %% of the peak of %.1f%s", rate / 1e9, 100 * rate / peak, peak / 1e9,
                    before);
  add_number(product, "flops", rate);
  add_number(product, "peak_flops", peak);
  if (rate < 0.6 * peak) {
    tri_finding_advise(product, TRI_MARK_WARNING, "%s",
                       device->info.place[0] != '\0'
                           ? "something else may be using the GPU, or it is kept slow: hot, or a limit of power (look "
                             "with nvidia-smi or rocm-smi)"
                           : "something else may be using the cores (look with top), or the threads are bound to too "
                             "few of them");
  }
}

void tri_doctor_check_device(tri_doctor *doctor) {
  tri_finding *finding = tri_doctor_find(doctor, "device");
  tri_device *device = NULL;
  finding->required = true;
  if (tri_device_create("cpu", 0, &device) != TRI_OK) {
    tri_finding_value(finding, "none can be used");
    tri_finding_advise(finding, TRI_MARK_MISSING, "%s", tri_status_message());
    return;
  }
  tri_finding_value(finding, "%s, %d thread%s", device->info.name, device->description.threads,
                    TRI_PLURAL(device->description.threads));
  add_text(finding, "device", device->info.name);
  add_count(finding, "threads", device->description.threads);
  if (doctor->test_s > 0) {
    check_product(doctor, device, TRI_FP32, doctor->test_s, "product in fp32");
    check_product(doctor, device, TRI_BF16, doctor->test_s, "product in bf16");
  }
  tri_device_destroy(device);
}

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

static const double gpus_test_s = 4; /* duration of the tests of all GPUs together, in seconds */

/* Sets the value and the facts of a GPU's finding. A GPU that cannot be opened has no facts. */
static void describe_gpu(const tri_gpu_seen *gpu, tri_finding *finding) {
  const tri_gpu_facts *facts = &gpu->facts;
  char has[32], left[32];
  if (gpu->fault[0] != '\0') tri_finding_advise(finding, TRI_MARK_WARNING, "%s", gpu->fault);
  if (facts->name[0] == '\0') {
    tri_finding_value(finding, "%s lists it, but it cannot be opened", gpu->runtime);
    return;
  }
  tri_finding_value(finding, "%s, %s, %s free of %s, %s driver %s, at %s", facts->name, facts->architecture,
                    tri_format_bytes((double)gpu->free_bytes, left, sizeof left),
                    tri_format_bytes((double)facts->memory_bytes, has, sizeof has), gpu->runtime, facts->driver,
                    facts->bus);
  add_text(finding, "model", facts->name);
  add_text(finding, "chip", facts->architecture);
  add_text(finding, "driver", facts->driver);
  add_count(finding, "memory_bytes", (int64_t)facts->memory_bytes);
  add_count(finding, "free_bytes", (int64_t)gpu->free_bytes);
}

static void check_gpu(tri_doctor *doctor, const tri_gpu_seen *gpu, double product_s) {
  char name[24], device_name[24], text[64];
  tri_device *device = NULL;
  snprintf(name, sizeof name, "GPU %d", gpu->number);
  tri_finding *finding = tri_doctor_find(doctor, name);
  describe_gpu(gpu, finding);
  add_count(finding, "gpu", gpu->number);
  if (gpu->fault[0] != '\0' || doctor->test_s <= 0) return;
  snprintf(device_name, sizeof device_name, "gpu:%d", gpu->number);
  if (tri_device_create(device_name, 0, &device) != TRI_OK) {
    tri_finding_advise(finding, TRI_MARK_WARNING, "%s", tri_status_message());
    return;
  }
  snprintf(name, sizeof name, "  product in fp32");
  check_product(doctor, device, TRI_FP32, product_s, name);
  snprintf(name, sizeof name, "  product in bf16");
  check_product(doctor, device, TRI_BF16, product_s, name);
  tri_finding *library = tri_doctor_find(doctor, "  products by");
  tri_finding_value(library, "%s", tri_gpu_gemms_text(device, text, sizeof text));
  for (tri_finding *own = finding + 1; own <= library; own++) add_count(own, "gpu", gpu->number);
  tri_device_destroy(device);
}

/* Adds a finding for each tool. A missing tool is a warning only if a GPU of this machine needs it. */
static void list_tools(tri_doctor *doctor, const tri_gpu_tool *tools, int count) {
  for (int i = 0; i < count; i++) {
    const tri_gpu_tool *t = &tools[i];
    tri_finding *finding = tri_doctor_find(doctor, t->name);
    if (t->fault[0] == '\0') {
      tri_finding_value(finding, "%s%s%s", t->version, t->version[0] == '\0' ? "" : ", ", t->path);
      add_text(finding, "version", t->version);
      add_text(finding, "path", t->path);
    } else {
      tri_finding_value(finding, "%s%s%s", t->path, t->path[0] == '\0' ? "not found" : " cannot be used",
                        t->wanted ? "" : ", and no GPU here needs it");
      if (t->wanted) tri_finding_advise(finding, TRI_MARK_WARNING, "%s", t->fault);
    }
  }
}

void tri_doctor_check_gpus(tri_doctor *doctor) {
  tri_gpu_tool compilers[TRI_GPU_NUM_COMPILERS], products[TRI_GPU_NUM_PRODUCT_LIBRARIES];
  const int count = doctor->num_gpus;
  if (count == 0) {
    tri_finding *finding = tri_doctor_find(doctor, "GPUs");
    tri_finding_value(finding, "none that this process can use");
    add_text(finding, "looked_for", doctor->no_gpus);
  }
  for (int i = 0; i < count; i++) check_gpu(doctor, &doctor->gpus[i], gpus_test_s / (2 * count));
  tri_gpu_look_for_compilers(doctor->gpus, count, compilers);
  list_tools(doctor, compilers, TRI_GPU_NUM_COMPILERS);
  tri_gpu_find_gemms(doctor->gpus, count, products);
  list_tools(doctor, products, TRI_GPU_NUM_PRODUCT_LIBRARIES);
}
