"""The paper's model: a frozen SAM2.1 image encoder with LoRA, and one mask decoder per task. Needs ``[vision]``."""
