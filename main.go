// Command helix-desktop is Helix with its window. The headless program is app/cmd/helix.
package main

import (
	"os"

	"helix/app"
	"helix/frontend"
)

func main() {
	os.Exit(app.Main(os.Args[1:], frontend.Dist))
}
