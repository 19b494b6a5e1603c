//! Name of the provider that a request was sent to.

/// Providers by the ends of their host names.
const HOSTS: &[(&str, &str)] = &[
    ("anthropic.com", "anthropic"),
    ("openai.com", "openai"),
    ("openai.azure.com", "azure"),
    ("services.ai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("inference.ai.azure.com", "azure"),
    ("openrouter.ai", "openrouter"),
    ("groq.com", "groq"),
    ("deepseek.com", "deepseek"),
    ("together.xyz", "together"),
    ("together.ai", "together"),
    ("mistral.ai", "mistral"),
    ("x.ai", "xai"),
    ("fireworks.ai", "fireworks"),
    ("cerebras.ai", "cerebras"),
    ("perplexity.ai", "perplexity"),
    ("cohere.com", "cohere"),
    ("cohere.ai", "cohere"),
    ("moonshot.ai", "moonshot"),
    ("moonshot.cn", "moonshot"),
    ("kimi.com", "moonshot"),
    ("bigmodel.cn", "zhipu"),
    ("z.ai", "zhipu"),
    ("aliyuncs.com", "alibaba"),
    ("minimax.io", "minimax"),
    ("minimaxi.com", "minimax"),
    ("nvidia.com", "nvidia"),
    ("huggingface.co", "huggingface"),
    ("deepinfra.com", "deepinfra"),
    ("novita.ai", "novita"),
    ("siliconflow.cn", "siliconflow"),
    ("siliconflow.com", "siliconflow"),
    ("sambanova.ai", "sambanova"),
    ("hyperbolic.xyz", "hyperbolic"),
    ("githubcopilot.com", "github-copilot"),
    ("models.github.ai", "github-models"),
    ("opencode.ai", "opencode"),
    ("vercel.sh", "vercel"),
    ("gateway.ai.cloudflare.com", "cloudflare"),
    ("googleapis.com", "google"),
    ("amazonaws.com", "amazon-bedrock"),
    ("chatgpt.com", "openai"),
    ("ollama.com", "ollama"),
];

/// Returns the provider at an address: by its host, else `local` for this machine or network, else the host itself. A
/// dialect does not tell who answers: gateways speak those of others.
pub(crate) fn provider_of(url: &str) -> String {
    let host = host(url);
    let is_of = |end: &str| host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    // The longest end is the most specific one.
    let known = HOSTS.iter().filter(|(end, _)| is_of(end)).max_by_key(|(end, _)| end.len());
    match known {
        Some((_, name)) => (*name).to_owned(),
        None if is_local(&host) => "local".to_owned(),
        None => host,
    }
}

/// Returns the host of an address in lower case, without its port.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns whether a host is this machine, or in its network by an address or a name that no public one has.
fn is_local(host: &str) -> bool {
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(ip)) => {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
        }
        Ok(std::net::IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => {
            let ends = [".localhost", ".local", ".internal", ".lan", ".home.arpa"];
            !host.is_empty() && (!host.contains('.') || ends.iter().any(|end| host.ends_with(end)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_its_provider() {
        for (url, name) in [
            ("https://api.openai.com/v1/chat/completions", "openai"),
            ("https://openrouter.ai/api/v1/chat/completions", "openrouter"),
            ("https://api.groq.com/openai/v1/chat/completions", "groq"),
            ("https://api.deepseek.com/chat/completions", "deepseek"),
            ("https://api.together.xyz/v1/chat/completions", "together"),
            ("https://me.openai.azure.com/openai/deployments/x/chat/completions?api-version=1", "azure"),
            ("https://user:key@API.Groq.com.:443/openai/v1/chat/completions", "groq"),
            ("http://127.0.0.1:11434/v1/chat/completions", "local"),
            ("http://[::1]:8080/v1/chat/completions", "local"),
            ("http://localhost:1234/v1/chat/completions", "local"),
            ("http://host.docker.internal:1234/v1/chat/completions", "local"),
            ("http://vllm:8000/v1/chat/completions", "local"),
            ("http://192.168.1.7:8000/v1/chat/completions", "local"),
            ("https://notgroq.com/v1/chat/completions", "notgroq.com"),
            ("https://key@Gateway.example.com:8443/v1/chat/completions", "gateway.example.com"),
            ("https://groq.com.example.com/v1/chat/completions", "groq.com.example.com"),
            ("https://llm.example.com/v1/messages", "llm.example.com"),
            ("https://8.8.8.8:8000/v1/messages", "8.8.8.8"),
            ("https://api.deepseek.com/anthropic/v1/messages", "deepseek"),
        ] {
            assert_eq!(provider_of(url), name, "{url}");
        }
    }
}
