package agent

// Names of telemetry. They follow OpenTelemetry's conventions for generative AI where those define a
// name.
const (
	spanTurn = "invoke_agent"
	spanCall = "chat"
	spanTool = "execute_tool"

	attrOperation    = "gen_ai.operation.name"
	attrAgent        = "gen_ai.agent.name"
	attrConversation = "gen_ai.conversation.id"
	attrProvider     = "gen_ai.provider.name"
	attrModel        = "gen_ai.request.model"
	attrFinish       = "gen_ai.response.finish_reasons"
	attrInputTokens  = "gen_ai.usage.input_tokens"
	attrOutputTokens = "gen_ai.usage.output_tokens"
	attrTokenType    = "gen_ai.token.type"
	attrTool         = "gen_ai.tool.name"
	attrToolCall     = "gen_ai.tool.call.id"
	attrInput        = "gen_ai.input.messages"
	attrOutput       = "gen_ai.output.messages"
	attrError        = "error.type"
	attrKind         = "helix.session.kind"
	attrStop         = "helix.stop_reason"
	attrSteps        = "helix.steps"
	attrStatus       = "helix.tool.status"

	metricCallSeconds = "gen_ai.client.operation.duration"
	metricCallTokens  = "gen_ai.client.token.usage"
	metricTurnSeconds = "helix_turn_duration_seconds"
	metricTokens      = "helix_provider_tokens_total"
	metricCost        = "helix_provider_cost_usd"
	metricTools       = "helix_tool_executions_total"
	metricToolSeconds = "helix_tool_duration_seconds"
	metricContext     = "helix_context_utilization_ratio"
	metricActive      = "helix_active_sessions"
	// MetricMemory is the number of memory chunks. It is reported where the program is assembled, not
	// here.
	MetricMemory = "helix_memory_chunks_total"
)
