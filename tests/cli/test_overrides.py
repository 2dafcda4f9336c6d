"""Every mistake among the options of a command: one line that names the way out, and nothing left behind."""

import re
from pathlib import Path

import pytest
from command_line import SMALL, command

from lmzoo.runs.directory import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # misspelt options, groups and models
        ("model.hiden=3", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("+model.hiden=3", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("++model.hiden=3", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("~model.hiden", "model.hiden: no such option; did you mean 'model.hidden'?"),
        ("hidden=3", "hidden: no such option; did you mean 'model.hidden'?"),
        ("sed=3", "sed: no such option; did you mean 'seed'?"),
        ("modl=lstm", "modl: no such option; did you mean 'model'?"),
        ("+modl=lstm", "modl: no such option; did you mean 'model'?"),
        ("++modl=lstm", "modl: no such option; did you mean 'model'?"),
        ("modl.hidden=3", "modl.hidden: no such option; did you mean 'model.hidden'?"),
        ("model=lstmm", "model=lstmm: no such model; did you mean 'lstm'?"),
        ("corpus=pydocs", "corpus=pydocs: no such corpus; did you mean 'pydoc'?"),
        ("+model=lstm", "+model=lstm: every run has one model; choose it with model=NAME"),
        ("++model=lstm", "++model=lstm: every run has one model; choose it with model=NAME"),
        ("~model", "~model: every run has one model; choose it with model=NAME"),
        ("model=null", "model=null: no such model; "),
        ("labeller=crf", "labeller: no such option of lmzoo train; leave it out"),
        ("+method=skipgram", "method: no such option of lmzoo train; leave it out"),
        ("~task", "task: no such option of lmzoo train; leave it out"),
        ("model.name=lstmm", "model.name=lstmm: no such model; did you mean 'lstm'?"),
        # options of another choice, and of another group
        (
            "model=gru model.order=3",
            "model.order: is an option of model=logbilinear, loglinear, model_m, ngram, nnlm, not of model=gru",
        ),
        ("corpus=ptb corpus.reverse=true", "corpus.reverse: is an option of corpus=text, not of corpus=ptb"),
        ("corpus=pydoc +reverse=true", "corpus.reverse: is an option of corpus=text, not of corpus=pydoc"),
        ("optimizer=sgd optimizer.beta1=0.5", "optimizer.beta1: is an option of optimizer=adam, adamw, not of "),
        ("schedule.factor=0.5", "schedule.factor: is an option of schedule=plateau, step, not of schedule=cosine"),
        ("trainer.lr=0.1", "trainer.lr: no such option; did you mean 'optimizer.lr'?"),
        ("-m model=lstm,rn", "model=rn: no such model; did you mean 'rnn'?"),
        ("-m model=lstm,rnn modle.hidden=3", "modle.hidden: no such option; did you mean 'model.hidden'?"),
        ("-m model=lstm,rnn ++model.hiden=3,4", "model.hiden: no such option; did you mean 'model.hidden'?"),
        (
            "-m model=lstm,ngram model.hidden=3",
            "model.hidden: no such option of model=ngram; leave it out, or each model that does not have it",
        ),
        ("-m model=lstm,ngram model.hiden=3", "model.hiden: no such option; did you mean 'model.hidden'?"),
        (
            "-m model=hmm,lstm trainer=default,debug model.states=3",
            "no such option of model=lstm trainer=default; leave it out",
        ),
        ("-m model=glob(*x)", "model=glob(*x): no such model; "),
        (
            "zz.qqq=3",
            "zz.qqq: no such option; choose from: corpus, deterministic, device, experiment, hydra,",
        ),
        ("expriment=x", "expriment: no such option; did you mean 'experiment'?"),
        ("hydra.swep.dir=x", "hydra.swep: no such option; did you mean 'hydra.sweep'?"),
        ("+hydra.swep.dir=x", "hydra.swep: no such option; did you mean 'hydra.sweep'?"),
        ("-m model=lstm,rnn hydra.sweep.dri=x", "Could not override 'hydra.sweep.dri'."),
        ("-m hydra/launcher=bsic", "Could not find 'hydra/launcher/bsic'"),
        ("hydra/launcher=joblib", "hydra/launcher=joblib: has an effect only in a sweep; add -m, or leave it out"),
        ("-m hydra.job.chdir=true", "hydra.job.chdir: Hydra keeps no folders here; choose run_dir=FOLDER"),
        ("corpus.train=~/x.txt", "cannot be read; write $HOME for ~"),
        ("corpus.train=~/x.txt", "; write $HOME for ~, which the shell does not expand here"),
        ("hydra.output_subdir=x", "hydra.output_subdir: Hydra keeps no folders here; choose run_dir=FOLDER"),
        # what is no option at all
        ("lstm", "'lstm': write options as key=value, such as model=lstm"),
        ("model.hidden=[1", "'model.hidden=[1': cannot be read"),
        ("--multirn model=rnn,lstm", "unrecognized arguments: --multirn; see --help"),
        ("--model=lstm", "unrecognized arguments: --model=lstm; write model=lstm"),
        ("-model=rnn", "ignored explicit argument 'odel=rnn'; write model=rnn"),
        ("-m --corpus=pydo", "unrecognized arguments: --corpus=pydo; did you mean 'pydoc'?"),
        ("--learning-rate=3", "unrecognized arguments: --learning-rate=3; did you mean 'optimizer.lr'?"),
        ("optimizer.learning_rate=3", "optimizer.learning_rate: no such option; did you mean 'optimizer.lr'?"),
        ("learning_rate=3", "learning_rate: no such option; did you mean 'optimizer.lr'?"),
        ("model=rnn,lstm", "model=rnn,lstm: several values make a sweep, which lmzoo train -m does"),
        ("-m optimizer.lr=interval(0,1)", "optimizer.lr=interval(0,1): an interval needs a search; add hydra/sweeper"),
        ("-m optimizer.lr=tag(log,interval(1,2))", ": an interval needs a search; add hydra/sweeper=search"),
        (
            "corpus.train=a,b",
            """-m does; a list is 'corpus.train=[a,b]', a name with a comma "corpus.train='a,b'\"""",
        ),
        ("--run --multirun", "Only one of --run, --multirun"),
        ("run_dir=${nope}", "run_dir: Interpolation key 'nope' not found"),
        ("optimizer.lr=${.nope}", "optimizer.lr: Interpolation key 'nope' not found"),
        # wrong types and sizes
        ("model.hidden=many", "model.hidden=many: must be an integer"),
        ("model.hidden=", "model.hidden=: must be an integer"),
        ('model.hidden="8"', "model.hidden=8: must be an integer; leave out its quotes"),
        ("run_dir=3", "run_dir=3: must be a string; quote it, in the shell's quotes too: 'key=\"value\"'"),
        ("model=LSTM", "model=LSTM: no such model; did you mean 'lstm'?"),
        ("model.hidden=1e2", "model.hidden=100.0: must be an integer"),
        ("model.hidden=true", "model.hidden=true: must be an integer"),
        ("model.tied=3", "model.tied=3: must be true or false"),
        ("run_dir=false", "run_dir=false: must be a string"),
        ("trainer.precision=float16", "trainer.precision=float16: must be one of auto, float32, bfloat16"),
        ("~model.hidden", "~model.hidden: an option cannot be deleted; set it to another value"),
        ("model.hidden=-3", "model.hidden=-3: must be at least 1"),
        ("model.dropout=1", "model.dropout=1: must be below 1"),
        ("model.dropout=-0.1", "model.dropout=-0.1: must be at least 0"),
        ("plugins=my.unigram", "plugins=my.unigram: must be a list; write plugins=[my.unigram]"),
        ("optimizer.lr=nan", "optimizer.lr=nan: must be a number"),
        ("trainer.epochs=0", "trainer.epochs=0: evaluates the weights of other runs"),
        ("trainer.clip=0", "trainer.clip=0: must be at least 1e-09"),  # null is no limit
        ("corpus.train=-1", "corpus.train=-1: must be at least 1"),
        ("seed=-1", "seed=-1: must be at least 0"),
        ("seed=4294967296", "seed=4294967296: must be at most 4294967295"),
        ("trainer.batch_size=1000", "trainer.batch_size=1000: train has only 406 tokens; lower it, as each row needs"),
        ("model.embedding=9", "model.tied=true needs model.embedding=9 and model.hidden=8 to be equal"),
        # absent devices
        ("device=cuda:63", "device=cuda:63: no such device on this machine; choose from: auto, cpu"),
        ("device=gpu", "device=gpu: no such device on this machine; choose from: auto, cpu"),
    ],
)
def test_a_mistake_on_the_command_line(arguments: str, message: str, folder: Path):
    flags = [word for word in arguments.split() if word.startswith("-")]
    overrides = [word for word in arguments.split() if not word.startswith("-")]
    groups = [word for word in overrides if re.fullmatch(r"(\+\+|\+|~)?(model|corpus)(=.*)?", word)]
    small = SMALL if not groups else [word for word in SMALL if not word.startswith(("model", "corpus"))]
    assert message in command(*flags, *small, *overrides).refused()
    assert not list(folder.iterdir())


def test_an_option_and_its_value_as_other_programs_have_them(folder: Path):
    assert command("--model", "lstm").refused() == "error: unrecognized arguments: --model; write model=lstm"
    assert "did you mean 'trainer.epochs'?" in command("--epochs", "3", "model=lstm").refused()


@pytest.mark.parametrize("line", [["--info", "defaults", "model=ngram"], ["model=ngram", "--info"]])
def test_a_flag_of_hydra_does_not_take_an_option_for_its_value(line: list[str]):
    assert "Defaults List" in command(*line).out


def test_an_option_may_be_another_one_of_its_group(tmp_path: Path):
    small = [word for word in SMALL if not word.startswith(("model", "run_dir"))]
    run = tmp_path / "run"
    options = ["model=lstm", "model.hidden=6", "model.embedding=${.hidden}", f"run_dir={run}"]
    assert command(*small, *options).code == 0
    assert Run(run).config()["model"]["embedding"] == 6
