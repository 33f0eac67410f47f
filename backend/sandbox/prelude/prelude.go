// Package prelude contains the JavaScript that prepares a guest world before a tool runs in it: the
// helix object and the web globals. Only backend/sandbox and the program that builds the engine
// artefacts may import it.
package prelude

import (
	"embed"
	"strings"
)

//go:embed *.js
var files embed.FS

// order is the order in which the files are joined; later files use names of earlier ones.
var order = [...]string{"core.js", "globals.js", "url.js", "searchparams.js", "intl.js"}

// Name is the file name of the prelude in guest stack traces.
const Name = "helix:prelude"

// Source returns one expression: a function that takes the host function and returns the function
// through which the host calls the guest.
func Source() string {
	var b strings.Builder
	b.WriteString("(function (host) {\n\"use strict\";\n")
	for _, name := range order {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the list and the embedded folder differ
		}
		b.Write(text)
	}
	b.WriteString("\nreturn enter;\n})")
	return b.String()
}
