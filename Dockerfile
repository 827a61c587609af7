# docker build --tag sstcast .                                       # for CPUs
# docker build --tag sstcast --build-arg PYTORCH=pytorch-gpu .       # for NVIDIA GPUs: docker run --gpus all
# docker run --user "$(id -u):$(id -g)" --volume "$PWD:/work" sstcast train configs/demo.yaml   # writes ./data, ./runs
FROM mambaorg/micromamba:2.2.0
ARG PYTORCH=pytorch-cpu
# There is no GPU while the image is built: this tells conda which CUDA the machine will have.
ARG CONDA_OVERRIDE_CUDA=12.9
RUN micromamba install --yes --name base --channel conda-forge \
      python=3.11 pip cxx-compiler "${PYTORCH}>=2.10" \
    && micromamba clean --all --yes
COPY --chown=$MAMBA_USER:$MAMBA_USER . /tmp/sstcast
RUN micromamba run --name base pip install --no-cache-dir /tmp/sstcast && rm -r /tmp/sstcast
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/_entrypoint.sh", "sstcast"]
CMD ["--help"]
