/* stream_skipping.cu - stream.cu's kernels for floats that skip NaNs. */
#include "stream_launch.cuh"

int stream_skipping(const struct launch *launch, uint64_t mirror) {
    return dispatch_skipping_lanes(launch->dtype, launch->args.reduce.operator_, [&](auto lane) -> int {
        return stream_start<typename decltype(lane)::type>(launch, mirror);
    });
}
