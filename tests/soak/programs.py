"""All programs by name."""

from soak.files import edit_checkpoints, edit_results, flip_bits, read_images, read_tables
from soak.kills import kill_while_comparing, kill_while_saving, kill_while_training
from soak.runner import Program
from soak.steps import (
    failures_change_nothing,
    interrupts_change_all_or_nothing,
    joint_is_sequential,
    powers_of_two_change_no_bit,
    split_is_whole,
)

_ALL = (
    Program("kill-train", "A killed and resumed run ends as an uninterrupted one, bit for bit", kill_while_training),
    Program("kill-compare", "A killed and resumed comparison has the same table", kill_while_comparing),
    Program("kill-save", "A kill while saving leaves checkpoints that can be read", kill_while_saving),
    Program("flip-bits", "A flipped bit of a checkpoint is noticed or changes nothing", flip_bits),
    Program("edit-checkpoint", "An edited checkpoint works or raises an error of one sentence", edit_checkpoints),
    Program("edit-results", "An edited `results.json` works or raises an error of one sentence", edit_results),
    Program("tables", "A table with random bytes is read or raises an error of one sentence", read_tables),
    Program("images", "An image with random bytes is read or raises an error of one sentence", read_images),
    Program("joint", "Joint and sequential evaluation give the same numbers", joint_is_sequential),
    Program("powers-of-two", "Losses times powers of two change no bit", powers_of_two_change_no_bit),
    Program("split", "Micro-batches are one large step", split_is_whole),
    Program("atomic", "A failed step changes nothing", failures_change_nothing),
    Program("interrupts", "Ctrl-C leaves all as before a step or as after it", interrupts_change_all_or_nothing),
)
PROGRAMS = {program.name: program for program in _ALL}
