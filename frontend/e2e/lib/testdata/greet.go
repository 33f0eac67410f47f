// Greet answers {"name": …} with a greeting.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	var in struct {
		Name string `json:"name"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "greeting", in.Name)
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"greeting": "Hello, " + in.Name}); err != nil {
		os.Exit(1)
	}
}
