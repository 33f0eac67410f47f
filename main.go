// Command helix-desktop is Helix with its window. The headless program is app/cmd/helix.
package main

import (
	"os"

	"helix/app"
	"helix/backend/sandbox"
	"helix/frontend"
)

func main() {
	worker := sandbox.ServeWorker() // does not return in the sandbox's child process
	os.Exit(app.Main(os.Args[1:], frontend.FS(), worker))
}
