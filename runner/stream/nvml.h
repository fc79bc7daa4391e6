/* nvml.h - reads clocks, power and temperature of an NVIDIA GPU, and its driver's version, through NVIDIA's management
 * library NVML, which is loaded at run time. Without it these facts are unknown. */
#ifndef RUNNER_NVML_H
#define RUNNER_NVML_H

#include "device.h"

/* The calls used here, as NVIDIA's nvml.h declares them. */
struct nvml {
    void *library, *card; /* NULL: not available */
    int (*shutdown)(void);
    int (*clock)(void *card, int clock, unsigned *mhz);
    int (*max_clock)(void *card, int clock, unsigned *mhz);
    int (*power_limit)(void *card, unsigned *milliwatts);
    int (*driver_version)(char *text, unsigned length);
    int (*power)(void *card, unsigned *milliwatts); /* this and those below may be NULL */
    int (*temperature)(void *card, int sensor, unsigned *celsius);
    int (*reasons)(void *card, unsigned long long *reasons);
};

/* Loads the library and finds the card by its bus address (NULL: unknown): CUDA_VISIBLE_DEVICES renumbers CUDA's
 * devices but not NVML's. If either is missing, all facts are unknown. The caller calls nvml_close. */
void nvml_open(const char *bus, struct nvml *nvml);
void nvml_close(struct nvml *nvml);

/* Reads clock, power, temperature and what slows the card down now. */
struct sample_conditions nvml_conditions(const struct nvml *nvml);
/* Sets the driver's version, the highest clocks and the power limit. */
void nvml_provenance(const struct nvml *nvml, struct device_provenance *provenance);

#endif
