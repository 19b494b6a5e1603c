//! Finds the provider for the model that a user names.

use session::model::{self, Model, Tier, Vendor};

use super::super::attempt::ProviderClient;
use super::super::vendor;
use super::{ConfigError, Entry, ProviderConfig};

impl ProviderConfig {
    /// Returns the provider of a model, and the model's id there.
    ///
    /// `PROVIDER/MODEL` names both. A tier alone selects the first provider that has a key: Anthropic, OpenAI, then
    /// those of the file. An id alone selects a provider that lists it, else its vendor, else the only provider
    /// that can be used at all.
    pub fn choose(&self, model: &str) -> Result<(ProviderClient, String), ConfigError> {
        let model = model.trim();
        if let Some((name, rest)) = model.split_once('/')
            && let Some(entry) = self.entries.get(name).filter(|_| !rest.is_empty())
        {
            let id = match Tier::named(rest) {
                Some(tier) => self.of_tier(name, entry, tier)?,
                None => rest.to_owned(),
            };
            return Ok((self.provider(name, entry)?, id));
        }
        let (name, entry) = match Tier::named(model) {
            Some(tier) => self.with_tier(tier).ok_or_else(|| self.no_key_at_all())?,
            None => self.with_model(model)?,
        };
        let id = match Tier::named(model) {
            Some(tier) => self.of_tier(name, entry, tier)?,
            None => model.to_owned(),
        };
        Ok((self.provider(name, entry)?, id))
    }

    /// Returns this provider and no other: a conversation never moves to another provider with a model of the same name.
    pub fn named(&self, name: &str) -> Result<ProviderClient, ConfigError> {
        match self.entries.get(name) {
            Some(entry) => self.provider(name, entry),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> ConfigError {
        let known: Vec<&str> = self.in_order().iter().map(|(name, _)| *name).collect();
        let hint =
            format!("known are {}; `[providers.{name}]` in `offshoot.toml` adds one", known.join(", "));
        ConfigError::UnknownProvider { provider: name.to_owned(), hint }
    }

    fn built_in(&self, vendor: Vendor) -> (&str, &Entry) {
        let name = match vendor {
            Vendor::Anthropic => "anthropic",
            Vendor::OpenAi => "openai",
        };
        let (name, entry) =
            self.entries.get_key_value(name).expect("built in, and nothing takes entries away");
        (name, entry)
    }

    /// Returns all providers, the built-in ones first.
    fn in_order(&self) -> Vec<(&str, &Entry)> {
        let built_in = [self.built_in(Vendor::Anthropic), self.built_in(Vendor::OpenAi)];
        let others = self.entries.iter().map(|(name, entry)| (name.as_str(), entry));
        let others = others.filter(|(name, _)| built_in.iter().all(|(known, _)| known != name));
        built_in.into_iter().chain(others).collect()
    }

    fn with_tier(&self, tier: Tier) -> Option<(&str, &Entry)> {
        let can = |(name, entry): &(&str, &Entry)| {
            self.key(entry).is_some() && self.of_tier(name, entry, tier).is_ok()
        };
        self.in_order().into_iter().find(can)
    }

    /// Returns the error for a missing key when no provider was named: any of the keys would do.
    fn no_key_at_all(&self) -> ConfigError {
        let all = self.in_order();
        let variables = all.iter().flat_map(|(_, entry)| entry.key_env.iter().rev());
        let variables: Vec<String> = variables.map(|(name, _)| format!("`{name}`")).collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let (provider, hint) = (names.join("` or `"), super::set_one_of(&variables));
        ConfigError::NoKey { provider, hint }
    }

    fn with_model(&self, id: &str) -> Result<(&str, &Entry), ConfigError> {
        let order = self.in_order();
        let lists = |(_, entry): &&(&str, &Entry)| entry.models.values().any(|listed| listed == id);
        if let Some(found) = order.iter().find(lists) {
            return Ok(*found);
        }
        if let Some(model) = Model::find(id) {
            return Ok(self.built_in(model.vendor));
        }
        let mut usable = order.iter().filter(|(_, entry)| self.key(entry).is_some());
        match (usable.next(), usable.next()) {
            (Some(only), None) => Ok(*only),
            _ => {
                let names: Vec<&str> = order.iter().map(|(name, _)| *name).collect();
                let known = names.join(", ");
                if let Some((name, 1..)) = id.split_once('/').map(|(name, rest)| (name, rest.len())) {
                    return Err(self.unknown(name));
                }
                let hint = format!("say whose it is, as in `{}/{id}`; known are {known}", names[0]);
                Err(ConfigError::NoProvider { model: id.to_owned(), hint })
            }
        }
    }

    /// Returns the provider's model for a tier: from its table, else from its vendor.
    fn of_tier(&self, name: &str, entry: &Entry, tier: Tier) -> Result<String, ConfigError> {
        if let Some(id) = entry.models.get(&tier) {
            return Ok(id.clone());
        }
        match entry.base_env {
            Some(_) => Ok(model::model_for_tier(vendor(entry.dialect), tier).to_owned()),
            None => Err(ConfigError::NoTier { provider: name.to_owned(), tier }),
        }
    }
}
