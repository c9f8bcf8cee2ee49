"""From records to answers: `vit-report`. Nothing is imported here, so that the command's help answers at once."""
