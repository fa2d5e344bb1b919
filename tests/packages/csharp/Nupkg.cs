// SPDX-License-Identifier: Apache-2.0
using System;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Text;
using System.Xml.Linq;

/// <summary>
/// PROJECT BUILT README FOLDER: packs the library in the folder BUILT as `dotnet pack` does, for .NET Standard 2.0
/// alone, with the properties of PROJECT. The time of all files is SOURCE_DATE_EPOCH.
/// </summary>
public static class Nupkg
{
    private const string Package = "http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd";
    private const string Types = "http://schemas.openxmlformats.org/package/2006/content-types";
    private const string Relationships = "http://schemas.openxmlformats.org/package/2006/relationships";
    private const string Manifest = "http://schemas.microsoft.com/packaging/2010/07/manifest";

    public static void Main(string[] arguments)
    {
        var project = XDocument.Load(arguments[0]);
        string id = Property(project, "PackageId"), version = Property(project, "Version");
        string file = Path.Combine(arguments[3], id + "." + version + ".nupkg");
        using (var archive = new ZipArchive(File.Create(file), ZipArchiveMode.Create))
        {
            Add(archive, "[Content_Types].xml", ContentTypes());
            Add(archive, "_rels/.rels", Relations(id));
            Add(archive, id + ".nuspec", Nuspec(project, id, version));
            Add(archive, "README.md", File.ReadAllBytes(arguments[2]));
            foreach (string extension in new[] { ".dll", ".xml" })
            {
                byte[] content = File.ReadAllBytes(Path.Combine(arguments[1], id + extension));
                Add(archive, "lib/netstandard2.0/" + id + extension, content);
            }
        }
    }

    private static string Property(XDocument project, string name) => project.Descendants(name).Single().Value;

    private static XElement Nuspec(XDocument project, string id, string version)
    {
        XNamespace package = Package;
        return new XElement(
            package + "package",
            new XElement(
                package + "metadata",
                new XElement(package + "id", id),
                new XElement(package + "version", version),
                new XElement(package + "authors", Property(project, "Authors")),
                new XElement(
                    package + "license",
                    new XAttribute("type", "expression"),
                    Property(project, "PackageLicenseExpression")),
                new XElement(package + "readme", Property(project, "PackageReadmeFile")),
                new XElement(package + "projectUrl", Property(project, "PackageProjectUrl")),
                new XElement(package + "description", Property(project, "Description")),
                new XElement(package + "tags", Property(project, "PackageTags")),
                new XElement(
                    package + "repository",
                    new XAttribute("type", "git"),
                    new XAttribute("url", Property(project, "RepositoryUrl"))),
                new XElement(
                    package + "dependencies",
                    new XElement(package + "group", new XAttribute("targetFramework", ".NETStandard2.0")))));
    }

    private static XElement ContentTypes()
    {
        XNamespace types = Types;
        var kinds = new[]
        {
            "rels=vnd.openxmlformats-package.relationships+xml", "nuspec=octet", "md=octet", "dll=octet", "xml=octet",
        };
        return new XElement(types + "Types", kinds.Select(kind => kind.Split('=')).Select(pair => new XElement(
            types + "Default",
            new XAttribute("Extension", pair[0]),
            new XAttribute("ContentType", "application/" + pair[1]))));
    }

    private static XElement Relations(string id)
    {
        XNamespace relationships = Relationships;
        return new XElement(
            relationships + "Relationships",
            new XElement(
                relationships + "Relationship",
                new XAttribute("Type", Manifest),
                new XAttribute("Target", "/" + id + ".nuspec"),
                new XAttribute("Id", "nuspec")));
    }

    private static void Add(ZipArchive archive, string name, XElement content) =>
        Add(archive, name, Encoding.UTF8.GetBytes("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" + content + "\n"));

    private static void Add(ZipArchive archive, string name, byte[] content)
    {
        var entry = archive.CreateEntry(name);
        entry.LastWriteTime = DateTimeOffset.FromUnixTimeSeconds(
            long.Parse(Environment.GetEnvironmentVariable("SOURCE_DATE_EPOCH")));
        using (var stream = entry.Open())
            stream.Write(content, 0, content.Length);
    }
}
