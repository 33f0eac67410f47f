/** The single MCP screen of the page, so that servers are followed on every screen. */
import { rpc } from "../../lib/rpc";
import { lasting } from "../../lib/ui/state";
import { McpScreen } from "./mcp.svelte";

let screen: McpScreen | null = null;

export function mcpScreen(): McpScreen {
  screen ??= lasting(() => new McpScreen(rpc));
  return screen;
}
