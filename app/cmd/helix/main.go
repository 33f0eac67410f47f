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
	worker := sandbox.ServeWorker() // does not return in the sandbox's child process
	web, err := fs.Sub(frontend.Dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded, so this is a broken build
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Env{Web: web, Worker: worker}))
}
