"""The names of every flag of llama.cpp's programs by how many values follow, from `common/arg.cpp` of 0.3.36's copy."""

SWITCHES = frozenset(
    """
    -h --help --usage --version -cl --cache-list --completion-bash --verbose-prompt --display-prompt
    --no-display-prompt --swa-full -kvu --kv-unified -no-kvu --no-kv-unified --cache-idle-slots
    --no-cache-idle-slots --context-shift --no-context-shift --perf --no-perf --show-timings --no-show-timings
    -e --escape --no-escape --prompt-cache-all --prompt-cache-ro -sp --special -cnv --conversation -no-cnv
    --no-conversation -st --single-turn -i --interactive -if --interactive-first -mli --multiline-input
    --in-prefix-bos --warmup --no-warmup --spm-infill --ignore-eos -bs --backend-sampling -kvo --kv-offload
    -nkvo --no-kv-offload --repack -nr --no-repack --no-host --hellaswag --winogrande --multiple-choice
    --kl-divergence -cb --cont-batching -nocb --no-cont-batching --mmproj-auto --no-mmproj --no-mmproj-auto
    --mmproj-offload --no-mmproj-offload --list-devices -cmoe --cpu-moe --check-tensors --op-offload
    --no-op-offload --mtp --dflash --eagle3 --process-output --ppl --no-ppl --show-statistics --parse-special
    --ids --stdin --no-bos --no-parse-special --show-count -pps -tgs --reuse-port --cors-credentials
    --no-cors-credentials --ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy -ag --agent
    -no-ag --no-agent --ui --webui --no-ui --no-webui --embedding --embeddings --rerank --reranking
    --cache-prompt --no-cache-prompt --metrics --props --slots --no-slots --models-autoload --no-models-autoload
    --jinja --no-jinja --reasoning-preserve --no-reasoning-preserve --skip-chat-parsing --no-skip-chat-parsing
    --prefill-assistant --no-prefill-assistant --lora-init-without-apply --simple-io --log-disable --log-jsonl
    --no-log-jsonl -v --verbose --log-verbose --offline --log-prefix --no-log-prefix --log-timestamps
    --no-log-timestamps --spec-draft-cpu-moe -cmoed --cpu-moe-draft --spec-draft-backend-sampling
    --no-spec-draft-backend-sampling --diffusion-visual --check --save-logits --embd-gemma-default
    --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec
    --fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default
    --vision-gemma-12b-default --spec-default
    """.split()  # noqa: SIM905 - a list would be four times as long
)
WITH_VALUE = frozenset(
    """
    --server-base -co --color -t --threads -tb --threads-batch -C --cpu-mask -Cr --cpu-range --cpu-strict --prio
    --poll -Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch -lcs
    --lookup-cache-static -lcd --lookup-cache-dynamic -c --ctx-size --kv-unified-per-slot -n --predict
    --n-predict -b --batch-size -ub --ubatch-size --keep -ctxcp --ctx-checkpoints --swa-checkpoints -cms
    --checkpoint-min-step -cram --cache-ram --chunks -fa --flash-attn -p --prompt -sys --system-prompt -f --file
    -sysf --system-prompt-file --in-file -bf --binary-file -ptc --print-token-count --prompt-cache -r
    --reverse-prompt --in-prefix --in-suffix --samplers -s --seed --sampler-seq --sampling-seq --temp
    --temperature --top-k --top-p --min-p --top-nsigma --top-n-sigma --xtc-probability --xtc-threshold --typical
    --typical-p --repeat-last-n --repeat-penalty --presence-penalty --frequency-penalty --dry-multiplier
    --dry-base --dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker --adaptive-target
    --adaptive-decay --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent -l --logit-bias
    --grammar --grammar-file -j --json-schema -jf --json-schema-file --pooling --attention --rope-scaling
    --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor
    --yarn-beta-slow --yarn-beta-fast -gan --grp-attn-n -gaw --grp-attn-w -ctk --cache-type-k -ctv
    --cache-type-v --hellaswag-tasks --winogrande-tasks --multiple-choice-tasks --save-all-logits
    --kl-divergence-base --ppl-stride --ppl-output-type -dt --defrag-thold -np --parallel -ns --sequences -mm
    --mmproj -mmu --mmproj-url --image --audio --video --image-min-tokens --image-max-tokens
    --mtmd-batch-max-tokens --video-fps --video-timestamp-interval --video-ffmpeg-dir --rpc -lm --load-mode -lzm
    --lazy-mode --numa -dev --device -ot --override-tensor -ncmoe --n-cpu-moe -ncffn --n-cpu-ffn -ngl
    --gpu-layers --n-gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu -fit --fit -fitp --fit-print
    -fitt --fit-target -fitc --fit-ctx --override-kv --lora --lora-scaled --control-vector
    --control-vector-scaled -a --alias --tags -m --model -mu --model-url -dr --docker-repo -hf -hfr --hf-repo
    -hff --hf-file -hft --hf-token --context-file --chunk-size --chunk-separator --junk --pos -o --output
    --output-file -ofreq --output-frequency --output-format --save-frequency --chunk --from-chunk -npp -ntg -npl
    --embd-normalize --embd-output-format --embd-separator --cls-separator --host --port --path --cors-origins
    --cors-methods --cors-headers --api-prefix --ui-config --webui-config --ui-config-file --webui-config-file
    --tools --tools-runtime --mcp-servers-config --mcp-servers-json --api-key --api-key-file --ssl-key-file
    --ssl-cert-file --chat-template-kwargs -to --timeout --sse-ping-interval --threads-http --cache-reuse
    --slot-save-path --media-path --models-dir --models-preset --models-max --reasoning-format -rea --reasoning
    --reasoning-effort --reasoning-budget --reasoning-budget-message --chat-template --chat-template-file -sps
    --slot-prompt-similarity --sleep-idle-seconds --positive-file --negative-file --pca-batch --pca-iter
    --method --log-file --log-prompts-dir --log-colors -lv --verbosity --log-verbosity --spec-draft-hf -hfd
    -hfrd --hf-repo-draft --spec-draft-threads -td --threads-draft --spec-draft-threads-batch -tbd
    --threads-batch-draft --spec-draft-cpu-mask -Cd --cpu-mask-draft --spec-draft-cpu-range -Crd
    --cpu-range-draft --spec-draft-cpu-strict --cpu-strict-draft --spec-draft-prio --prio-draft
    --spec-draft-poll --poll-draft --spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft
    --spec-draft-cpu-range-batch -Crbd --cpu-range-batch-draft --spec-draft-cpu-strict-batch
    --cpu-strict-batch-draft --spec-draft-prio-batch --prio-batch-draft --spec-draft-poll-batch
    --poll-batch-draft --spec-draft-type-k -ctkd --cache-type-k-draft --spec-draft-type-v -ctvd
    --cache-type-v-draft --spec-draft-override-tensor -otd --override-tensor-draft --spec-draft-n-cpu-moe
    --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft --spec-draft-n-max --spec-draft-n-min --spec-synth-len
    --spec-synth-rates --spec-draft-p-split --draft-p-split --spec-draft-p-min --draft-p-min --spec-draft-device
    -devd --device-draft --spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-model -md
    --model-draft --spec-type --spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match
    --spec-ngram-simple-size-n --spec-ngram-simple-size-m --spec-ngram-simple-min-hits --spec-ngram-map-k-size-n
    --spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n
    --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits --draft --draft-n --draft-max --draft-min
    --draft-n-min --spec-ngram-size-n --spec-ngram-size-m --spec-ngram-min-hits --tts-lang --tts-speaker-file
    --diffusion-steps --diffusion-eps --diffusion-algorithm --diffusion-alg-temp --diffusion-block-length
    --diffusion-cfg-scale --diffusion-add-gumbel-noise -lr --learning-rate -lr-min --learning-rate-min
    -decay-epochs --learning-rate-decay-epochs -wd --weight-decay -val-split --val-split -epochs --epochs -opt
    --optimizer --logits-output-dir --tensor-filter
    """.split()  # noqa: SIM905 - a list would be four times as long
)
TWO_VALUES = frozenset({"--control-vector-layer-range"})
