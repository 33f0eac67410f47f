package container

import "embed"

//go:embed all:artefacts/arm64
var embedded embed.FS
