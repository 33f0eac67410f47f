// class: output
return { toJSON() { return 1n } }
