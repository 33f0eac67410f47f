package container

import "embed"

//go:embed all:artefacts/amd64
var embedded embed.FS
