/* nvml.c - loads NVML, finds a card and queries it. */
#include "nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>

enum nvml_clock { NVML_CLOCK_GRAPHICS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum nvml_sensor { NVML_TEMPERATURE_GPU = 0 };
/* Bits of nvmlDeviceGetCurrentClocksThrottleReasons. */
enum nvml_reason {
    NVML_REASON_POWER_CAP = 0x4,
    NVML_REASON_HARDWARE = 0x8,
    NVML_REASON_HEAT = 0x20,
    NVML_REASON_HARDWARE_HEAT = 0x40,
    NVML_REASON_POWER_BRAKE = 0x80,
};

void nvml_close(struct nvml *nvml) {
    if (nvml->shutdown) nvml->shutdown();
    if (nvml->library) dlclose(nvml->library);
    *nvml = (struct nvml){.library = NULL};
}

void nvml_open(const char *bus, struct nvml *nvml) {
    int (*init)(void) = NULL;
    int (*find)(const char *bus, void **card) = NULL;
    *nvml = (struct nvml){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!nvml->library) return;
    /* Converts the object pointer of dlsym to a function pointer in the way that POSIX recommends. */
    *(void **)&init = dlsym(nvml->library, "nvmlInit_v2");
    *(void **)&find = dlsym(nvml->library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml->clock = dlsym(nvml->library, "nvmlDeviceGetClockInfo");
    *(void **)&nvml->max_clock = dlsym(nvml->library, "nvmlDeviceGetMaxClockInfo");
    *(void **)&nvml->power_limit = dlsym(nvml->library, "nvmlDeviceGetPowerManagementLimit");
    *(void **)&nvml->driver_version = dlsym(nvml->library, "nvmlSystemGetDriverVersion");
    *(void **)&nvml->power = dlsym(nvml->library, "nvmlDeviceGetPowerUsage");
    *(void **)&nvml->temperature = dlsym(nvml->library, "nvmlDeviceGetTemperature");
    *(void **)&nvml->reasons = dlsym(nvml->library, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!nvml->reasons) /* newer drivers have renamed it */
        *(void **)&nvml->reasons = dlsym(nvml->library, "nvmlDeviceGetCurrentClocksEventReasons");
    if (init && init() == 0) *(void **)&nvml->shutdown = dlsym(nvml->library, "nvmlShutdown");
    bool complete = nvml->shutdown && find && nvml->clock && nvml->max_clock && nvml->power_limit &&
                    nvml->driver_version && bus && find(bus, &nvml->card) == 0;
    if (!complete) nvml_close(nvml);
}

struct sample_conditions nvml_conditions(const struct nvml *nvml) {
    struct sample_conditions now = CONDITIONS_UNKNOWN;
    unsigned value;
    unsigned long long reasons = 0;
    if (!nvml->card) return now;
    if (nvml->clock(nvml->card, NVML_CLOCK_GRAPHICS, &value) == 0) now.clock_mhz = (float)value;
    if (nvml->power && nvml->power(nvml->card, &value) == 0) now.power_w = (float)value * 1e-3f;
    if (nvml->temperature && nvml->temperature(nvml->card, NVML_TEMPERATURE_GPU, &value) == 0)
        now.temperature_c = (float)value;
    if (nvml->reasons && nvml->reasons(nvml->card, &reasons) != 0) reasons = 0;
    if (reasons & NVML_REASON_POWER_CAP) now.throttle |= THROTTLE_POWER;
    if (reasons & (NVML_REASON_HEAT | NVML_REASON_HARDWARE_HEAT)) now.throttle |= THROTTLE_HEAT;
    if (reasons & (NVML_REASON_HARDWARE | NVML_REASON_POWER_BRAKE)) now.throttle |= THROTTLE_OTHER;
    return now;
}

/* NaN: unknown. */
static double highest_clock_mhz(const struct nvml *nvml, enum nvml_clock clock) {
    unsigned mhz;
    return nvml->max_clock(nvml->card, clock, &mhz) == 0 ? (double)mhz : (double)NAN;
}

void nvml_provenance(const struct nvml *nvml, struct device_provenance *provenance) {
    unsigned milliwatts;
    provenance->sm_clock_mhz = provenance->memory_clock_mhz = provenance->power_limit_w = NAN;
    if (!nvml->card) return;
    nvml->driver_version(provenance->driver_version, sizeof provenance->driver_version);
    provenance->sm_clock_mhz = highest_clock_mhz(nvml, NVML_CLOCK_SM);
    provenance->memory_clock_mhz = highest_clock_mhz(nvml, NVML_CLOCK_MEMORY);
    if (nvml->power_limit(nvml->card, &milliwatts) == 0) provenance->power_limit_w = milliwatts * 1e-3;
}
