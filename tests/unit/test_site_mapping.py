"""Site mapping: what is mapped, what is named because nothing covers it, and what is left alone (issue 6; M6, P13)."""

from __future__ import annotations

import pytest

from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.located import BadFile
from bridgehead.model.policy import policy_data, read_policy, write_policy
from bridgehead.model.site_map import Kind, SiteMap
from bridgehead.recovery.site_mapping import Mapped, map_script

A, B = SiteId("a"), SiteId("b")
DIGEST = "sha256:" + "5e" * 32
HEAD = "policy: p\nsource: a\ntarget: b\nmapping:\n"
RULES = f"""
  paths:
    data: {{a: /lustre/data, b: /gpfs/data}}
    hot: {{a: /lustre/data/hot, b: /nvme/hot}}
    gone: {{a: /old, b: ""}}
  partitions: {{gpu: {{a: gpu, b: h200}}, cpu: {{a: cpu, b: std}}}}
  accounts: {{research: {{a: research, b: p1}}}}
  qos: {{high: {{a: high, b: ""}}}}
  constraints: {{ib: {{a: ib400, b: ndr}}}}
  gres: {{h100: {{a: "gpu:h100", b: "gpu:h200"}}, plain: {{a: "gpu:a100", b: gpu}}}}
  reservations: {{maint: {{a: r1, b: r2}}}}
  names: {{lic: {{a: matlab, b: mlb}}, conda: {{a: torch24, b: torch-2.4}}}}
  modules: {{cuda: {{a: cuda/12.4, b: CUDA/12.4.1}}}}
  endpoints: {{s3: {{a: "s3.a.example:8333", b: s3.b.example}}, db: {{a: db01, b: pg.b}}}}
  environment: {{NCCL_SOCKET_IFNAME: {{a: ib0, b: bond0}}, SCRATCH: {{a: /s, b: /w}}}}
  images: {{train: {{at: {{a: "reg.a.example/t@{DIGEST}", b: "reg.b.example/t@{DIGEST}"}}}},
           file: {{at: {{a: /img/t.sqsh, b: /images/t.sqsh}}, digests: {{b: "{DIGEST}"}}}},
           loose: {{at: {{a: "reg.a.example/u:1", b: "reg.b.example/u:1"}}}}}}
  datasets: {{corpus: {{at: {{a: /lustre/corpus, b: /gpfs/corpus}}}}}}
  same: [/shared, normal, hub.example]
  inside: [/workspace]
"""


def mapping(text: str = RULES) -> SiteMap:
    found = read_policy(HEAD + text, file="policy.yaml").mapping
    assert found is not None
    return found


def mapped(script: str, rules: str = RULES) -> Mapped:
    return map_script(script, mapping(rules), source=A, target=B, file="job.sh")


def test_a_policy_with_a_mapping_is_written_and_read_as_it_was() -> None:
    policy = read_policy(HEAD + RULES, file="policy.yaml")
    assert read_policy(write_policy(policy), file="again.yaml") == policy
    assert policy_data(policy)["mapping"]["paths"]["gone"]["b"] == ""


def test_faults_of_a_mapping_name_line_and_field() -> None:
    text = HEAD + "  paths:\n    d: {a: data, c: /x}\n  partitions:\n    p: {a: gpu}\n  gres:\n    g: {a: 'gpu:h100:8', b: gpu}\n"
    with pytest.raises(BadFile) as caught:
        read_policy(text, file="p.yaml", sites=["a", "b"])
    places = [(fault.line, fault.path) for fault in caught.value.faults]
    assert places == [(6, "mapping.paths.d.a"), (6, "mapping.paths.d.c"), (8, "mapping.partitions.p"), (10, "mapping.gres.g.a")]


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("#SBATCH -p gpu", "#SBATCH -p h200"),
        ("#SBATCH -pgpu", "#SBATCH -ph200"),
        ("#SBATCH --partition=gpu,cpu", "#SBATCH --partition=h200,std"),
        ('#SBATCH --partition "gpu" -A research', '#SBATCH --partition "h200" -A p1'),
        ("#SBATCH --qos=normal", "#SBATCH --qos=normal"),
        ("#SBATCH --qos=high", "# b has none of: #SBATCH --qos=high"),
        ("#SBATCH --qos=normal,high -N 2", "#SBATCH --qos=normal -N 2"),
        ("#SBATCH -N 2 --qos=high -n 4", "#SBATCH -N 2 -n 4"),
        ("#SBATCH --gres=gpu:h100:8,shard:2", "#SBATCH --gres=gpu:h200:8,shard:2"),
        ("#SBATCH --gres=gpu:a100:8", "#SBATCH --gres=gpu:8"),
        ("#SBATCH --gres=gpu:8", "#SBATCH --gres=gpu:8"),
        ("#SBATCH --gpus-per-node=h100:8", "#SBATCH --gpus-per-node=h200:8"),
        ("#SBATCH --gpus=a100:8", "#SBATCH --gpus=8"),
        ("#SBATCH -G 8", "#SBATCH -G 8"),
        ('#SBATCH -C "[ib400*2]"', '#SBATCH -C "[ndr*2]"'),
        ("#SBATCH --reservation=r1", "#SBATCH --reservation=r2"),
        ("#SBATCH -L matlab@srv:2", "#SBATCH -L mlb@srv:2"),
        ("#SBATCH -o /lustre/data/hot/%j.out", "#SBATCH -o /nvme/hot/%j.out"),
        ("export SBATCH_PARTITION=gpu", "export SBATCH_PARTITION=h200"),
        ("P=gpu\nsrun -p $P hostname", "P=h200\nsrun -p $P hostname"),
        ("srun -n 2 --partition gpu \\\n  python --partition=gpu", "srun -n 2 --partition h200 \\\n  python --partition=gpu"),
        ("if true; then srun -p gpu x; fi", "if true; then srun -p h200 x; fi"),
        ("module load cuda/12.4", "module load CUDA/12.4.1"),
        ("ml cuda/12.4", "ml CUDA/12.4.1"),
        ("conda activate torch24", "conda activate torch-2.4"),
        ("cat /lustre/data/x /lustre/data/hot/y", "cat /gpfs/data/x /nvme/hot/y"),
        ("X=/lustre/data:/lustre/corpus/a", "X=/gpfs/data:/gpfs/corpus/a"),
        ("D=${D:-/lustre/data/x}", "D=${D:-/gpfs/data/x}"),
        ('run "/lustre/data/my dir/x"', 'run "/gpfs/data/my dir/x"'),
        ("gcc -I/lustre/data/inc", "gcc -I/gpfs/data/inc"),
        ("cat <<E\nin /lustre/data/x\nE", "cat <<E\nin /gpfs/data/x\nE"),
        ("x=$(ls /lustre/data)", "x=$(ls /gpfs/data)"),
        ("y=$((1<<4))\nmodule load cuda/12.4", "y=$((1<<4))\nmodule load CUDA/12.4.1"),
        ("NCCL_SOCKET_IFNAME='ib0' run", "NCCL_SOCKET_IFNAME='bond0' run"),
        ("export U=http://s3.a.example:8333/b/c", "export U=http://s3.b.example/b/c"),
        ("psql --host db01", "psql --host pg.b"),
        ("DB_HOST=db01", "DB_HOST=pg.b"),
        ("rsync x u@db01:/lustre/data/x", "rsync x u@pg.b:/lustre/data/x"),
        (f"docker run docker://reg.a.example/t@{DIGEST}", f"docker run docker://reg.b.example/t@{DIGEST}"),
        ("srun --container-image=/img/t.sqsh x", "srun --container-image=/images/t.sqsh x"),
        ("IMG=/img/t.sqsh", "IMG=/images/t.sqsh"),
        ("cat > j <<E\n#SBATCH -p gpu\nmodule load cuda/12.4\nE", "cat > j <<E\n#SBATCH -p h200\nmodule load CUDA/12.4.1\nE"),
        ("bash -lc 'module load cuda/12.4; srun -p gpu x'", "bash -lc 'module load CUDA/12.4.1; srun -p h200 x'"),
        ('sbatch --wrap="srun -p gpu x"', 'sbatch --wrap="srun -p h200 x"'),
        ("cat /lustre/data/db01/x", "cat /gpfs/data/db01/x"),
        ("psql postgres://u:p@db01/x", "psql postgres://u:p@pg.b/x"),
        ("#SBATCH --mincpus 8 --partition=gpu --account=research", "#SBATCH --mincpus 8 --partition=h200 --account=p1"),
        ("#SBATCH -S 2 -p gpu", "#SBATCH -S 2 -p h200"),
        ("#SBATCH --of-a-plugin 2 -p gpu", "#SBATCH --of-a-plugin 2 -p h200"),
        ("#SBATCH --part=gpu -Hvp gpu", "#SBATCH --part=h200 -Hvp h200"),
        ("#SBATCH --tres-per-task=cpu:8,gres/gpu:h100:1", "#SBATCH --tres-per-task=cpu:8,gres/gpu:h200:1"),
        ("srun --hint nomultithread -A research x", "srun --hint nomultithread -A p1 x"),
        ("srun -W 60 -p gpu x", "srun -W 60 -p h200 x"),
        ("sbatch -W -p gpu x", "sbatch -W -p h200 x"),
        ('srun "--partition=gpu" x', 'srun "--partition=h200" x'),
        ("timeout 3600 srun -p gpu x", "timeout 3600 srun -p h200 x"),
        ("nice -n 5 srun -p gpu x", "nice -n 5 srun -p h200 x"),
        ("numactl -m 0 srun -p gpu x", "numactl -m 0 srun -p h200 x"),
        ("mpirun -np 4 /usr/bin/srun -p gpu x", "mpirun -np 4 /usr/bin/srun -p h200 x"),
        ("ls | xargs srun -p gpu x", "ls | xargs srun -p h200 x"),
        ("srun -p gpu sbatch -p cpu x", "srun -p h200 sbatch -p std x"),
        ("ssh u@db01 'sbatch -p gpu x'", "ssh u@pg.b 'sbatch -p h200 x'"),
        ('CALL="srun -p gpu x"', 'CALL="srun -p h200 x"'),
        ('ARGS="-N 2 --partition=gpu"\nsrun $ARGS x', 'ARGS="-N 2 --partition=h200"\nsrun $ARGS x'),
    ],
)  # fmt: skip
def test_covered_words_become_those_of_the_other_site(line: str, becomes: str) -> None:
    found = mapped(f"#!/bin/bash\n{line}\n")
    assert found.text == f"#!/bin/bash\n{becomes}\n"
    assert found.uncovered == ()


@pytest.mark.parametrize(
    ("line", "kind", "word"),
    [
        ("#SBATCH -p debug", Kind.PARTITION, "debug"),
        ("#SBATCH --account=other", Kind.ACCOUNT, "other"),
        ("#SBATCH -q urgent", Kind.QOS, "urgent"),
        ("#SBATCH -C skylake", Kind.CONSTRAINT, "skylake"),
        ("#SBATCH --gres=gpu:b200:8", Kind.GRES, "gpu:b200"),
        ("#SBATCH --gres=lscratch:100G", Kind.GRES, "lscratch"),
        ("#SBATCH --reservation=class", Kind.RESERVATION, "class"),
        ("#SBATCH -w node[01-04]", Kind.NAME, "node[01-04]"),
        ("module load gcc/13", Kind.MODULE, "gcc/13"),
        ("cat /archive/x", Kind.PATH, "/archive/x"),
        ("export OUT=/archive/out", Kind.PATH, "/archive/out"),
        ("export NCCL_IB_HCA=mlx5_0", Kind.VARIABLE, "NCCL_IB_HCA"),
        ("export NCCL_SOCKET_IFNAME=eth7", Kind.VARIABLE, "NCCL_SOCKET_IFNAME"),
        ("cd $WORK", Kind.VARIABLE, "WORK"),
        ("curl https://api.example/v1", Kind.ENDPOINT, "https://api.example/v1"),
        ("run tcp://10.1.2.3:4000", Kind.ENDPOINT, "tcp://10.1.2.3:4000"),
        ("run --master_addr head01", Kind.ENDPOINT, "head01"),
        ("docker run ubuntu:24.04", Kind.IMAGE, "ubuntu:24.04"),
        ("srun docker run ubuntu:24.04", Kind.IMAGE, "ubuntu:24.04"),
        ("cat > j <<'E'\n#SBATCH -p debug\nE", Kind.PARTITION, "debug"),
        ("cat /home/db01/x", Kind.PATH, "/home/db01/x"),
        ("grep -v /b:/archive/y", Kind.PATH, "/archive/y"),
        ("srun --some-option=/archive/z x", Kind.PATH, "/archive/z"),
        ("srun --container-image=nvcr.io#nvidia/pytorch:24.05-py3 x", Kind.IMAGE, "nvcr.io#nvidia/pytorch:24.05-py3"),
        ("docker run reg.a.example/u:1", Kind.IMAGE, "reg.a.example/u:1"),
        ("apptainer exec /lustre/data/x.sif y", Kind.IMAGE, "/lustre/data/x.sif"),
        ("ls /old/x", Kind.PATH, "/old/x"),
        ('srun -p "$(pick)" x', Kind.VARIABLE, "$(pick)"),
        ("srun -K 1 -p gpu x", Kind.VARIABLE, "1"),
        ("srun --propagate NONE -p gpu x", Kind.VARIABLE, "NONE"),
        ("srun --of-a-plugin some -p gpu x", Kind.VARIABLE, "some"),
        ('A=1\nsrun $A -p gpu x', Kind.VARIABLE, "gpu"),
        ("srun --par=gpu x", Kind.VARIABLE, "gpu"),
        ("timeout 60 srun -A nobody x", Kind.ACCOUNT, "nobody"),
        ("#SBATCH --wckey key -p gpu", Kind.NAME, "key"),
    ],
)  # fmt: skip
def test_a_reference_that_no_row_covers_is_named_with_its_line(line: str, kind: Kind, word: str) -> None:
    found = mapped(f"#!/bin/bash\n\n{line}\n")
    named = [(one.file, one.kind, one.word) for one in found.uncovered if one.word != "/b"]
    assert named == [("job.sh", kind, word)]
    assert {one.line for one in found.uncovered} == {3 + line[: line.index(word)].count("\n")}
    assert "-p gpu" in line or found.text == f"#!/bin/bash\n\n{line}\n"


@pytest.mark.parametrize(
    "line",
    [
        "# see /archive/x and https://api.example",
        "##SBATCH -p debug",
        "cd $HOME/x ${SLURM_TMPDIR} $1 $? $((1/2)) > /dev/null 2>&1",
        "for f in a b; do echo $f; done",
        "read line; echo $line",
        "awk '{print $NF}' a/b/c ./x ../y",
        "awk -F: '/^model/ {print $2}' x",
        'srun -N 1 -w "$HEAD" hostname; HEAD=$(hostname)',
        "python -m torch.distributed.run --nproc-per-node 8 --rdzv_endpoint localhost:29500",
        "python /workspace/train.py --time 12:30:00 --lr 3e-4",
        "curl http://127.0.0.1:8000/health",
        "srun --container-image=/img/t.sqsh --container-mounts=/lustre/data:/mnt/d:ro python /mnt/d/x.py",
        "cat <<'E'\n$NOBODY\nE",
        "wget https://hub.example/x",
        "pip install torch==2.4.0",
        "/usr/bin/env python x",
        "srun -K python -u train.py",
        "srun -lu --label --overlap --nice ./x --of-its-own some",
        "srun --pty bash -i",
        "srun --unbuffered --wait=60 --kill-on-bad-exit=1 python x",
        "A=1; srun $A python x -p 3",
        "A=1; srun $A -N 2 python x -p 3",
        "id=$(sbatch --parsable a.sh); sbatch --dependency=afterok:$id b.sh",
        "command -v srun; which sbatch",
    ],
)
def test_what_is_no_matter_of_the_site_is_left_alone(line: str) -> None:
    assert mapped(f"#!/bin/bash\n{line}\n").uncovered == ()


def test_lines_that_slurm_does_not_read_are_said() -> None:
    found = mapped("#!/bin/bash\n#SBATCH -p gpu\nset -e\n#SBATCH -p nowhere\n")
    assert [line for line, _ in found.notes] == [4]
    assert found.uncovered == ()


def test_rows_that_disagree_and_rows_that_are_silent_refuse() -> None:
    two = "  partitions:\n    x: {a: gpu, b: h200}\n    y: {a: gpu, b: a100}\n    z: {a: cpu, c: std}\n"
    found = mapped("#SBATCH -p gpu,cpu\n", two)
    assert [one.why.partition(" (in")[0] for one in found.uncovered] == [
        "partitions.z says nothing of b",
        "partitions.x and partitions.y disagree about 'gpu' at b",
    ]


def test_a_change_that_cannot_be_taken_back_says_so() -> None:
    merged = "  partitions:\n    x: {a: long, b: main}\n    y: {a: short, b: main}\n  qos: {q: {a: high, b: ''}}\n"
    found = mapped("#SBATCH -p long --qos=high\n", merged)
    assert [(one.before, one.returns) for one in found.changes] == [("long", False), ("high", False)]


def test_what_the_mapped_script_needs_is_listed_once() -> None:
    found = mapped("#SBATCH -p gpu --gres=gpu:h100:8\nmkdir -p /lustre/data/out\ncat /lustre/data/x /lustre/data/x > /lustre/data/log\n")
    needs = [(one.kind, one.word, one.use.value, one.line) for one in found.needs]
    assert needs == [
        (Kind.PARTITION, "h200", "read", 1),
        (Kind.GRES, "gpu:h200", "read", 1),
        (Kind.PATH, "/gpfs/data/out", "made", 2),
        (Kind.PATH, "/gpfs/data/x", "read", 3),
        (Kind.PATH, "/gpfs/data/log", "written", 3),
    ]
