/* Whether our own prototypes, numbers and offsets of AMD's run-time library and compiler are those of its headers: this
 * compiles or it does not. Their objects are ours under other names, and an enum of theirs is an unsigned number to the
 * compiler. */
#define tri_gpu_module_object ihipModule_t
#define tri_gpu_function_object ihipModuleSymbol_t
#define tri_gpu_stream_object ihipStream_t
#define tri_gpu_event_object ihipEvent_t
#define tri_gpu_graph_object ihipGraph
#define tri_gpu_graph_run_object hipGraphExec
#define tri_gpu_rtc_program_object _hiprtcProgram

#include "device/gpu/hip_calls.h"
#include "device/gpu/rtc_calls.h"

#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#define ARE_SAME(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))

/* ---- prototypes -------------------------------------------------------------------------------------------------- */

#define COMMON(field, cuda, hip) _Static_assert(ARE_SAME(*((tri_gpu_calls *)0)->field, hip), #hip);
TRI_GPU_CALLS(COMMON)
#define HIP_CALL(field, name) _Static_assert(ARE_SAME(*((tri_hip_calls *)0)->field, name), #name);
TRI_HIP_CALLS(HIP_CALL)

/* The functions that fill a struct, which is compared below. hipGetDeviceProperties is a macro from version 6 on. */
typedef hipError_t properties(hipDeviceProp_t *, int);
typedef hipError_t our_properties(void *, int);
_Static_assert(ARE_SAME(hipGetDeviceProperties, properties), "hipGetDeviceProperties");
_Static_assert(ARE_SAME(*((tri_hip_calls *)0)->properties_5, our_properties), "properties_5");
_Static_assert(ARE_SAME(*((tri_hip_calls *)0)->properties_6, our_properties), "properties_6");

/* Lists of texts got another `const` in some versions. */
typedef hiprtcResult create_texts(hiprtcProgram *, const char *, const char *, int, const char **, const char **);
typedef hiprtcResult compile_texts(hiprtcProgram, int, const char **);
#define HIPRTC_CALL(field, nvrtc, hiprtc)                                                                              \
  _Static_assert(ARE_SAME(*((tri_gpu_rtc_calls *)0)->field, hiprtc) || ARE_SAME(hiprtc, create_texts) ||               \
                     ARE_SAME(hiprtc, compile_texts),                                                                  \
                 #hiprtc);
TRI_GPU_RTC_CALLS(HIPRTC_CALL)

#if __has_include(<amd_comgr/amd_comgr.h>)
#include <amd_comgr/amd_comgr.h>
#define HAVE_COMGR 1
#elif __has_include(<amd_comgr.h>)
#include <amd_comgr.h>
#define HAVE_COMGR 1
#endif
#if defined(HAVE_COMGR)
#define COMGR_CALL(field, name) _Static_assert(ARE_SAME(*((tri_comgr_calls *)0)->field, name), #name);
TRI_COMGR_CALLS(COMGR_CALL)
#endif

/* ---- the chip's name in the properties --------------------------------------------------------------------------- */

#if HIP_VERSION_MAJOR >= 6
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == TRI_HIP_CHIP_OFFSET_6, "gcnArchName");
#define STRING_(x) #x
#define STRING(x) STRING_(x)
_Static_assert(sizeof(STRING(hipGetDeviceProperties)) == sizeof "hipGetDevicePropertiesR0600", "R0600");
#else
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == TRI_HIP_CHIP_OFFSET_5, "gcnArchName");
#endif
_Static_assert(sizeof(((hipDeviceProp_t *)0)->gcnArchName) == TRI_HIP_CHIP_BYTES, "gcnArchName");
_Static_assert(sizeof(hipDeviceProp_t) <= TRI_HIP_PROPERTIES_BYTES, "hipDeviceProp_t");

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

#define NUMBER(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #theirs);
NUMBER(0, hipSuccess)
NUMBER(TRI_GPU_OUT_OF_MEMORY, hipErrorOutOfMemory)
NUMBER(TRI_HIP_NOT_INITIALIZED, hipErrorNotInitialized)
NUMBER(TRI_HIP_OLD_DRIVER, hipErrorInsufficientDriver)
NUMBER(TRI_HIP_INVALID_DEVICE_FUNCTION, hipErrorInvalidDeviceFunction)
NUMBER(TRI_GPU_NO_DEVICE, hipErrorNoDevice)
NUMBER(TRI_HIP_INVALID_DEVICE, hipErrorInvalidDevice)
NUMBER(TRI_HIP_INVALID_IMAGE, hipErrorInvalidImage)
NUMBER(TRI_HIP_NO_BINARY_FOR_GPU, hipErrorNoBinaryForGpu)
NUMBER(TRI_HIP_ECC, hipErrorECCNotCorrectable)
NUMBER(TRI_HIP_INVALID_KERNEL_FILE, hipErrorInvalidKernelFile)
NUMBER(TRI_HIP_OBJECT_NOT_LOADED, hipErrorSharedObjectInitFailed)
NUMBER(TRI_HIP_ILLEGAL_STATE, hipErrorIllegalState)
NUMBER(TRI_GPU_NOT_READY, hipErrorNotReady)
NUMBER(TRI_HIP_ILLEGAL_ADDRESS, hipErrorIllegalAddress)
NUMBER(TRI_HIP_LAUNCH_TIMEOUT, hipErrorLaunchTimeOut)
NUMBER(TRI_HIP_ASSERT, hipErrorAssert)
NUMBER(TRI_HIP_LAUNCH_FAILED, hipErrorLaunchFailure)
NUMBER(TRI_GPU_CAPTURE_FIRST, hipErrorStreamCaptureUnsupported)
NUMBER(TRI_GPU_CAPTURE_LAST, hipErrorStreamCaptureWrongThread)
NUMBER(TRI_HIP_UNKNOWN, hipErrorUnknown)
NUMBER(TRI_HIP_RUNTIME_MEMORY, hipErrorRuntimeMemory)
NUMBER(TRI_HIP_RUNTIME_OTHER, hipErrorRuntimeOther)
NUMBER(TRI_HIP_CLOCK_KHZ, hipDeviceAttributeClockRate)
NUMBER(TRI_HIP_L2_BYTES, hipDeviceAttributeL2CacheSize)
NUMBER(TRI_HIP_BLOCK_THREADS, hipDeviceAttributeMaxThreadsPerBlock)
NUMBER(TRI_HIP_MEMORY_BUS_BITS, hipDeviceAttributeMemoryBusWidth)
NUMBER(TRI_HIP_MEMORY_CLOCK_KHZ, hipDeviceAttributeMemoryClockRate)
NUMBER(TRI_HIP_PROCESSORS, hipDeviceAttributeMultiprocessorCount)
NUMBER(TRI_HIP_SHARED_BYTES, hipDeviceAttributeMaxSharedMemoryPerBlock)
NUMBER(TRI_HIP_WARP, hipDeviceAttributeWarpSize)
NUMBER(TRI_GPU_STREAM_NON_BLOCKING, hipStreamNonBlocking)
NUMBER(TRI_GPU_EVENT_UNTIMED, hipEventDisableTiming)
NUMBER(TRI_GPU_CAPTURE_THREAD_LOCAL, hipStreamCaptureModeThreadLocal)
NUMBER(TRI_GPU_CAPTURE_RELAXED, hipStreamCaptureModeRelaxed)
NUMBER(TRI_GPU_HOST_PORTABLE, hipHostMallocPortable)
NUMBER(TRI_GPU_COPY_HOST_TO_HOST, hipMemcpyHostToHost)
NUMBER(TRI_GPU_COPY_HOST_TO_DEVICE, hipMemcpyHostToDevice)
NUMBER(TRI_GPU_COPY_DEVICE_TO_HOST, hipMemcpyDeviceToHost)
NUMBER(TRI_GPU_COPY_DEVICE_TO_DEVICE, hipMemcpyDeviceToDevice)
NUMBER(0, HIPRTC_SUCCESS)
NUMBER(TRI_GPU_RTC_BUILTINS, HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE)
NUMBER(TRI_GPU_RTC_COMPILATION, HIPRTC_ERROR_COMPILATION)
