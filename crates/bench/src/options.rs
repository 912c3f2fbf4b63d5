//! The command line.

/// Settings of a run. Each suite has defaults.
#[derive(Default)]
pub struct Options {
    pub suite: Option<String>,
    pub json: bool,
    pub rounds: Option<usize>,
    pub contended: Contended,
    pub growth: Growth,
    pub cluster: Cluster,
}

/// Options of the suite `contended` only.
#[derive(Default, PartialEq)]
pub struct Contended {
    pub threads: Option<Vec<usize>>,
    /// In microseconds.
    pub lengths: Option<Vec<f64>>,
    pub millis: Option<u64>,
}

/// Options of the suite `growth` only.
#[derive(Default, PartialEq)]
pub struct Growth {
    /// The largest size.
    pub most: Option<usize>,
}

/// Options of the suite `cluster` only.
#[derive(Default, PartialEq)]
pub struct Cluster {
    /// The commits of one writer in a round. The other counts are in proportion to it.
    pub commits: Option<usize>,
}

impl Options {
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            let (contended, growth) = (&mut options.contended, &mut options.growth);
            let cluster = &mut options.cluster;
            match word.as_str() {
                "--json" => options.json = true,
                "--rounds" => options.rounds = Some(number(&word, &value()?)?),
                "--threads" => contended.threads = Some(list(&word, &value()?)?),
                "--lengths" => contended.lengths = Some(list(&word, &value()?)?),
                "--millis" => contended.millis = Some(number(&word, &value()?)?),
                "--most" => growth.most = Some(number(&word, &value()?)?),
                "--commits" => cluster.commits = Some(number(&word, &value()?)?),
                name if options.suite.is_none() && !name.starts_with('-') => {
                    options.suite = Some(word);
                }
                other => return Err(format!("unexpected argument {other:?}")),
            }
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr + Default + PartialOrd>(
    option: &str,
    value: &str,
) -> Result<T, String> {
    let number = value.parse().ok().filter(|number| *number > T::default());
    number.ok_or(format!("{option} needs numbers above 0, not {value:?}"))
}

fn list<T: std::str::FromStr + Default + PartialOrd>(
    option: &str,
    value: &str,
) -> Result<Vec<T>, String> {
    value.split(',').map(|one| number(option, one)).collect()
}
