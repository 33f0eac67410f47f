// Command typecheck reports whether packages, tests included, are valid Go on other systems:
//
//	go run ./build/typecheck windows,darwin ./backend/... ./app/cli/...
//
// It reads the source of what they import, which takes seconds where go vet compiles all of it
// for each system.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck SYSTEM[,SYSTEM…] PACKAGE…")
		os.Exit(2)
	}
	bad := 0
	for system := range strings.SplitSeq(os.Args[1], ",") {
		list, err := packages.Load(&packages.Config{
			Mode:  packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedImports | packages.NeedDeps,
			Env:   append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
			Tests: true,
		}, os.Args[2:]...)
		if err != nil {
			fmt.Fprintln(os.Stderr, "typecheck:", err)
			os.Exit(1)
		}
		fmt.Printf("%s: %d packages\n", system, len(list))
		bad += packages.PrintErrors(list)
	}
	if bad > 0 {
		os.Exit(1)
	}
}
