#!/usr/bin/env bash
# What is still to be measured on a GPU, in blocks of at most five minutes that print as they go:
#
#     perf/gpu_blocks.sh BLOCK [OUT]        # OUT, by default runs/gpu, holds the trainings; a block that ends early resumes
#
# Where NVIDIA's Multi-Process Service is installed, blocks that train several runs at a time start it.
set -u
cd "$(dirname "$0")/.."
block=${1:?name a block: table5, variants, curves, paper-curves, table5-short, single, together}
out=${2:-runs/gpu}
python=${PYTHON:-python3}
epochs=${EPOCHS:-20} long=${LONG:-100} device=${DEVICE:-cuda}
years=(--set 'data.splits.train=[1982, 2013]' --set 'data.splits.validation=[2014, 2014]' --set 'data.splits.test=[2015, 2016]')
small=(--set data.source=sample "${years[@]}" --set "data.directory=$out/prepared" --set "training.device=$device")

service() { # start the service, if it is there
  [ "$device" = cuda ] && command -v nvidia-cuda-mps-control > /dev/null || return 0
  nvidia-cuda-mps-control -d && trap 'echo quit | nvidia-cuda-mps-control' EXIT
}

limited() { # run the rest of the block for at most five minutes; SIGTERM lets trainings save
  timeout --signal TERM --kill-after 20 "${LIMIT:-300}" "$@"
}

case $block in
  table5) # Table 5 of Cai et al. on the ocean that ships: papers' sizes, 28 days ahead, two seeds
    service
    limited "$python" -m sstcast table5 --region tasman --horizons 28 --seeds 0,1 --jobs "${JOBS:-4}" \
      --out "$out/table5" "${small[@]}" --set "training.epochs=$epochs" ;;
  variants) # ways to compile a step
    limited "$python" perf/gpu_variants.py --device "$device" ;;
  curves) # networks to 9,600 steps, three seeds
    limited "$python" perf/learning_curves.py "$out/curves" --device "$device" --steps 150 600 2400 9600 --seeds 0 1 2 ;;
  paper-curves) # papers' sizes for 100 epochs, alone and on the recommended linear system; validation error by epoch
    service
    for name in mpnn-vn tfnet; do
      for base in none local; do
        model=(); [ $base = local ] && model=(--set 'model.base={name: local, memory: true, stencil: true}')
        limited "$python" -m sstcast --quiet train "configs/models/paper/$name.yaml" "${small[@]}" --set data.region=tasman \
          --set "name=$name-$base" --set "runs=$out" --set "training.epochs=$long" "${model[@]}" &
      done
    done
    wait
    for run in "$out"/{mpnn-vn,tfnet}-{none,local}; do echo "$run"; cut -d, -f1-4 "$run/history.csv" 2> /dev/null || echo "no epoch has ended"; done ;;
  table5-short) # the same 14 and 7 days ahead
    service
    limited "$python" -m sstcast table5 --region tasman --horizons 14,7 --seeds 0,1 --jobs "${JOBS:-4}" \
      --out "$out/table5" "${small[@]}" --set "training.epochs=$epochs" ;;
  single) # steps in single precision
    limited "$python" perf/gpu.py --device "$device" --precision 32-true --only mpnn-vn mpnn linear-transformer tfnet mlp \
      --no-rivals --least 0.6 --keep "$out/single.json" ;;
  together) # several trainings at a time, without the service and with it
    limited "$python" perf/gpu.py --device "$device" --only mpnn linear-transformer tfnet --jobs 1 2 4 --steps 100
    service
    limited "$python" perf/gpu.py --device "$device" --only mpnn linear-transformer tfnet --jobs 1 2 4 --steps 100 ;;
  *) echo "no block is called $block" >&2; exit 2 ;;
esac
