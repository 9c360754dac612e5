#!/usr/bin/env bash
# Trains the default network for MINUTES on one CUDA GPU from the packed artworks, in one command:
#
#   python -m benchmarks.pack_artworks          # before, where the artworks are
#   MINUTES=8 benchmarks/gpu_train.sh           # there; results are copied to $OUT where it is set
#
# Optional: PYTHON, DEVICE (cuda), BATCH (24), SIZE (192), WIDTH (32), STEPS (instead of MINUTES),
# NAME (gpu; of the files, so that two runs can share a machine), PACKED, INIT (a checkpoint to
# start from; brings its width), COMPILE (1: compile the frozen networks; about a minute at the
# start), EXTRA (more arguments of app.train; with INIT,
# "--train refinement" learns to refine paintings' codes and leaves the network as it is).
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
DEVICE=${DEVICE:-cuda}
PACKED=${PACKED:-benchmarks/packed}
RESULTS=${RESULTS:-runs/gpu}
NAME=${NAME:-gpu}
LIMIT=$((16 * 1000 * 1000))  # bytes a result file that comes back

if [ ! -d "$PACKED/train/photo" ]; then
  echo "error: $PACKED holds no packed artworks: run python -m benchmarks.pack_artworks first" >&2
  exit 2
fi

styles=()
for folder in "$PACKED"/train/*/; do
  name=$(basename "$folder")
  [ "$name" = photo ] || styles+=(--style "$name=$folder")
done
if [ -n "${STEPS:-}" ]; then length=(--steps "$STEPS"); else length=(--minutes "${MINUTES:-8}"); fi
if [ -n "${INIT:-}" ]; then shape=(--init "$INIT" --train all); else shape=(--width "${WIDTH:-32}"); fi
[ -z "${COMPILE:-}" ] || shape+=(--compile)

mkdir -p "$RESULTS"
# What is there so far comes back even if the machine stops the run.
copy_results() {
  [ -n "${OUT:-}" ] || return 0
  mkdir -p "$OUT"
  for file in "$RESULTS/$NAME".*; do
    [ -f "$file" ] || continue
    size=$(wc -c < "$file")
    if [ "$size" -le "$LIMIT" ]; then
      cp "$file" "$OUT/"
    else
      echo "left out: $file is $size bytes, over $LIMIT" >&2
    fi
  done
}
trap copy_results EXIT
trap 'exit 143' TERM

# bf16 outside the spectral layers, which stay float32; the frozen networks take their channels
# last. The codes are medoids: they are chosen afterwards by python -m app.codes, where the judge's
# weights are.
export PYTHONPATH="$PACKED/packages${PYTHONPATH:+:$PYTHONPATH}"
"$PYTHON" -m app.train --photos "$PACKED/train/photo" "${styles[@]}" "${length[@]}" "${shape[@]}" \
  --out "$RESULTS/$NAME.safetensors" --device "$DEVICE" --precision bfloat16 \
  --perceptual "$PACKED/perceptual.safetensors" --projection "$PACKED/projection.safetensors" \
  --codes medoids --size "${SIZE:-192}" --batch "${BATCH:-24}" --checkpoint-minutes 2 ${EXTRA:-}
