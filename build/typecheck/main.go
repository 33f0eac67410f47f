// Command typecheck reports whether packages, tests included, are valid Go on other systems:
//
//	go run ./build/typecheck [-dir MODULE] windows,darwin ./backend/... ./app/cli/...
//
// It reads the source of what they import, which takes seconds where go vet compiles all of it
// for each system.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("dir", ".", "the module's `folder`")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: typecheck [-dir MODULE] SYSTEM[,SYSTEM…] PACKAGE…")
		os.Exit(2)
	}
	bad := 0
	for system := range strings.SplitSeq(flag.Arg(0), ",") {
		env := append(os.Environ(), "GOOS="+system)
		if system != runtime.GOOS { // there is no C compiler for it
			env = append(env, "CGO_ENABLED=0")
		}
		list, err := packages.Load(&packages.Config{
			Mode:  packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedImports | packages.NeedDeps,
			Dir:   *dir,
			Env:   env,
			Tests: true,
		}, flag.Args()[1:]...)
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
