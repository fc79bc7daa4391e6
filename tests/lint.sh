#!/bin/bash
# Checks the order of layers, and runs clang-format, cppcheck, clang-tidy and shellcheck over the whole tree:
# `make lint`. Prints nothing and exits 0 if all is clean.
# The Makefile gives the preprocessor's flags in CFLAGS.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
shopt -s nullglob
c=(runner/*.c runner/*/*.c runner/*/*/*.c kernels/*/*.c kernels/*/*/*.c tests/unit/*.c)
headers=(runner/*.h runner/*/*.h runner/*/*/*.h kernels/*/*.h kernels/*/*/*.h tests/unit/*.h)
cuda=(kernels/*/*.cu kernels/*/*/*.cu kernels/*/*.cuh kernels/*/*/*.cuh)
export CFLAGS=${CFLAGS:-}
shell=(tests/*.sh tests/*/*.sh configs/slurm/*.sbatch configs/slurm/*.sh .ci/run)

for tool in clang-format cppcheck clang-tidy shellcheck; do
    command -v "$tool" > /dev/null || { echo "lint: no $tool here (apt: $tool)" >&2; exit 1; }
done

status=0
tests/layers.sh || status=1
clang-format --dry-run -Werror "${c[@]}" "${headers[@]}" "${cuda[@]}" || status=1
shellcheck "${shell[@]}" || status=1
# The formatter leaves comments as they are.
if LC_ALL=C.UTF-8 grep -nE '^.{121,}$' "${c[@]}" "${headers[@]}" "${cuda[@]}" | grep -E ':[0-9]+: *(/\*|\*)'; then
    echo 'lint: these comments are longer than 120 columns'
    status=1
fi
cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingIncludeSystem -DTILERUN_CUDA=0 "${c[@]}" || status=1

# clang-tidy prints its findings on stdout; on stderr it only counts the warnings that it suppresses.
# shellcheck disable=SC2016 # for the inner shell to expand
printf '%s\0' "${c[@]}" |
    xargs -0 -n 1 -P "$(nproc)" bash -c 'clang-tidy --quiet "$@" -- -std=c11 $CFLAGS 2> /dev/null' lint || status=1
exit "$status"
