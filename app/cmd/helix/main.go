// Command helix is the headless program: the command line and the backend without a window.
// It never imports app, so no web view is linked.
package main

import (
	"context"
	"os"

	"helix/app/cli"
	"helix/backend/sandbox"
	"helix/frontend"
)

func main() {
	worker := sandbox.ServeWorker() // does not return in the sandbox's child process
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Env{Web: frontend.FS(), Worker: worker}))
}
