import { mount } from "svelte";
import App from "./App.svelte";
import { theme } from "./lib/ui/theme.svelte";
import "./styles/base.css";

theme.listen();
const target = document.getElementById("app");
if (target) mount(App, { target });
