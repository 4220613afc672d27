/* libnvidia-ml.so.1 of a machine with one GPU: what nbdist asks NVML, for processes that a test does not start
   itself and so gives no fake. Functions that are missing here nvidia-ml-py reports as not found. */

#include <string.h>

typedef void *Device;
struct memory { unsigned long long total, free, used; };
struct utilisation { unsigned int gpu, memory; };

static int gpu;

static int answer(char *to, unsigned int room, const char *text) {
    if (strlen(text) >= room) return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
    strcpy(to, text);
    return 0;
}

int nvmlInitWithFlags(unsigned int flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code ? "an error" : "no error"; }
int nvmlSystemGetDriverVersion(char *to, unsigned int room) { return answer(to, room, "550.54"); }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device *device) {
    *device = &gpu;
    return index ? 2 : 0; /* NVML_ERROR_INVALID_ARGUMENT */
}
int nvmlDeviceGetName(Device device, char *to, unsigned int room) {
    return answer(to, room, "Tesla V100-SXM2-32GB");
}
int nvmlDeviceGetUUID(Device device, char *to, unsigned int room) { return answer(to, room, "GPU-0a1b2c3d"); }
int nvmlDeviceGetMemoryInfo(Device device, struct memory *memory) {
    *memory = (struct memory){32ULL << 30, 31ULL << 30, 1ULL << 30};
    return 0;
}
int nvmlDeviceGetUtilizationRates(Device device, struct utilisation *use) {
    *use = (struct utilisation){42, 3};
    return 0;
}
int nvmlDeviceGetPowerUsage(Device device, unsigned int *milliwatts) { *milliwatts = 97000; return 0; }
int nvmlDeviceGetTemperature(Device device, int sensor, unsigned int *celsius) { *celsius = 51; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned int *count, void *processes) {
    *count = 0;
    return 0;
}
