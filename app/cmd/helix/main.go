// Command helix is the headless program: the command line and the backend without a window.
// It never imports app, so no web view is linked.
package main

import (
	"context"
	"io/fs"
	"os"

	"helix/app/cli"
	"helix/backend/sandbox"
	"helix/frontend"
)

func main() {
	worker := sandbox.ServeWorker() // ends the program when it is the sandbox's child
	web, err := fs.Sub(frontend.Dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded: only a broken build lacks it
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Env{Web: web, Worker: worker}))
}
