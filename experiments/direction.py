"""Which values of a user's metric are better: by an arrow in its name, or by the usual words of the field."""

import re

CAMEL = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"  # the words of `valLoss` and `mAP`
ARROWS = {"↓": True, "⬇": True, "▼": True, "↑": False, "⬆": False, "▲": False}
LOSSES = {"loss", "losses", "nll", "xent", "crossentropy", "logloss", "ppl", "perplexity", "bpb", "bpc"}
"""Names of what has no percent."""
_LOWER = """
err errs error errors eer wer cer rmse mse mae mape smape wape mase rmsle msle nmse nrmse crps brier ece mce kl kld
jsd divergence bits drop degradation decrease forgetting elapsed ms seconds fid kid fvd fad lpips dists niqe brisque
mcd epe ate rpe rte chamfer emd hausdorff hd95 assd regret cost costs penalty violation violations toxicity latency
runtime delay ttft tpot memory mem vram flops macs energy watts kwh co2 carbon overfit gap fpr fnr fdr fpr95 far frr
minade minfde ade fde collisions misses residual aic bic
"""
LOWER = LOSSES | {*_LOWER.split()}
_HIGHER = """
acc accuracy accuracies score scores top auc auroc roc auprc prc ap map mrr ndcg recall precision sensitivity
specificity f1 fscore dice iou miou jaccard kappa mcc r2 correlation pearson spearman kendall bleu rouge meteor chrf
cider spice bertscore em pass win winrate wins reward rewards return returns elo psnr ssim snr sdr pesq stoi mos
inception throughput fps speed speedup bandwidth hit hits coverage likelihood elbo success solved
"""
HIGHER = {*_HIGHER.split()}
_NEUTRAL = """
test val valid validation train eval evaluation dev mean avg average best final last max macro micro weighted rate
episodic episode metric metrics summary charts rollout percent pct none norm normalized human raw total main at of
"""
NEUTRAL = {*_NEUTRAL.split()}
"""Words beside which a name of `HIGHER` keeps its direction."""
TURNED = {"neg", "negative", "negated", "minus", "inverse", "inv", "reduction", "improvement", "gain", "saved"}
"""Words with which a name of `LOWER` means the opposite, as in scikit-learn's `neg_mean_squared_error`."""
WAYS = {
    True: "--higher-is-better, in Python higher_is_better=True",
    False: "--lower-is-better, in Python lower_is_better=True",
}
"""Whether lower counts as better -> how to say the opposite."""


def words_of(name: str) -> set[str]:
    """The words of a name, in lower case, whatever divides them: {"val", "loss", "valloss"} of `valLoss`.

    What stands between two signs is a word as well, so that `mAP` and `top1` are known.
    """
    parts = re.findall(CAMEL, name)
    return {part.lower() for part in (*parts, *re.findall(r"[^\W_]+", name))}


def _is_plain(name: str) -> bool:
    """Whether a name says that higher is better and nothing else: each of its words is one of `HIGHER` or `NEUTRAL`.

    Numbers and single letters say nothing.
    """

    def known(word: str) -> bool:
        return len(plain := re.sub(r"\d", "", word).lower()) < 2 or plain in HIGHER | NEUTRAL or word.lower() in HIGHER

    parts = re.findall(r"[^\W_]+", name)
    said = HIGHER & (words_of(name) | words_of(re.sub(r"\d+", " ", name)))
    return bool(said) and all(known(part) or all(map(known, re.findall(CAMEL, part))) for part in parts)


def direction(name: str, given: bool | None, beside: str = "") -> tuple[bool, list[str]]:
    """Whether lower values are better, and what to note of it. `given`: what the user says; None: nothing.

    `beside`: what else the table says of the metric. An arrow decides, else a word for what is to be small. Only whole
    words count, so `confidence` is no FID. What no arrow and no user says is noted, unless each word of the name is
    known: a word never decides in silence, nor does an unknown one beside it.
    """
    found, arrows = words_of(f"{name} {beside}"), {lower for sign, lower in ARROWS.items() if sign in name}
    if given is not None or len(arrows) == 1:
        return (arrows.pop() if given is None else given), []
    low = bool(LOWER & found)
    lower = low and not TURNED & found
    said = f"{'Lower' if lower else 'Higher'} {name} counts as better. For the opposite: {WAYS[lower]}."
    return lower, [said] * (low or not _is_plain(f"{name} {beside}"))
