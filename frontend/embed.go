// Package frontend holds the built interface as an embedded file tree. Only the
// two main packages import it and pass the tree on; everything else receives an
// fs.FS.
package frontend

import (
	"embed"
	"io/fs"
)

// Dist is the output of "npm run build", below the folder "dist". On a clone
// where the interface was not built yet it holds only a placeholder file, so
// that the program compiles.
//
//go:embed all:dist
var Dist embed.FS

// FS returns the built interface with index.html at its root. It never fails on
// a compiled program: the folder "dist" is part of every build.
func FS() fs.FS {
	sub, err := fs.Sub(Dist, "dist")
	if err != nil {
		return Dist
	}
	return sub
}
