#!/usr/bin/env bash
# What to measure where a GPU is at hand for some minutes: on_gpu.sh speed|tests|rates|vit-lite|study FOLDER [DATA]
# Each part ends within 9 minutes on an H200. DATA holds CIFAR-10. Try a part on a CPU first: DEVICE=cpu QUICK=1.
set -uo pipefail
part=${1:?speed, tests, rates, vit-lite or study} out=${2:?folder of the results} data=${3:-data}
device=${DEVICE:-cuda} batches=${QUICK:+2}
mkdir -p "$out"
bench() {  # NAME, then words of the benchmark
  timeout 200 python3 tests/bench --device "$device" --rounds 2 --batches "${batches:-40}" --out "$out/$1.json" "${@:2}"
}
sweep() {
  python3 -m sweeps.main run "$@" --device "$device" --data.root "$data" --tracking off --out "$out/$1" ${QUICK:+--train.epochs 1}
}
small=(--preset cifar10-small --set model.embed_dim=64 model.depth=4 optim.grad_clip_norm=1 train.batch_size=128)  # table-8-64
case $part in
  speed)
    bench stack-5 "${small[@]}" --runs 5 --only ours-bf16-stacked
    bench stack-10 "${small[@]}" --runs 10 --only ours-bf16 ours-bf16-stacked ours-bf16-stacked-compiled --seconds 150
    bench vit-lite --preset vit-lite-6-4 --only ours-bf16 ours-bf16-compiled --seconds 150
    bench vit-lite-without-dropout --preset vit-lite-6-4 --set model.attn_drop_rate=0 --only ours-bf16 ours-bf16-compiled --seconds 150
    bench tintn --runs 16 --only ours-bf16 ours-bf16-stacked ours-bf16-stacked-compiled --seconds 200
    ;;
  tests) TEST_DEVICE=$device python3 -m pytest -q tests/experiments/training/test_on_gpu.py tests/experiments/training/test_cuda_ready.py ;;
  rates) time sweep kinds-64-rates ;;  # 45 runs, about 13 minutes: two calls, the second resumes in the same FOLDER
  vit-lite) sweep vit-lite --seeds "${SEEDS:-3}" --cohort 3 ;;
  study) time sweep table-8-64 --seeds 5 --train.precision bfloat16 ;;
  *) echo "on_gpu.sh: $part: expected speed, tests, rates, vit-lite or study" >&2; exit 2 ;;
esac
